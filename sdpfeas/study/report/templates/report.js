"use strict";
// The report: the table of cells with filters, sorting and downloads, the dialog about one cell, the two rankings.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byKey = new Map(data.cells.map((cell) => [cell.key, cell]));
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  // ---------------------------------------------------------------- number formats
  const time = (s) => {
    if (s === null || s === undefined) return "";
    if (s < 1e-3) return `${(s * 1e6).toFixed(0)} µs`;
    if (s < 1) return `${Number((s * 1e3).toPrecision(3))} ms`;
    return s < 1000 ? `${Number(s.toPrecision(3))} s` : `${s.toFixed(0)} s`;
  };
  const show = {
    solve_time: time,
    cpu_time: time,
    error: (v) => (v === null ? "" : v === 0 ? "0" : Number(v).toExponential(1)),
    peak_memory: (v) => (v ? `${Math.round(v / 1048576)} MiB` : ""),
  };
  const numeric = new Set(["seed", "size", "rows", "solve_time", "cpu_time", "iterations", "error", "peak_memory"]);
  const text = (cell, name) => (show[name] ? show[name](cell[name]) : cell[name] === null ? "" : String(cell[name]));
  const verdicts = new Set(["feasible", "infeasible", "bracket", "undecided"]);
  const kindOf = (word) => (verdicts.has(word) ? word : "failed");
  const badges = (cell) => ["wrong", "unproven", "conflict"].filter((name) => cell[name]);

  // ---------------------------------------------------------------- the table
  const order = { column: null, down: false };
  let shown = data.cells;
  const body = document.querySelector("#cell-table tbody");
  const rowsByKey = new Map();
  for (const cell of data.cells) {
    const row = make("tr");
    row.tabIndex = 0;
    row.dataset.cell = cell.key;
    for (const [name] of data.columns) {
      const box = make("td", undefined, numeric.has(name) ? "n" : "");
      if (name === "shown") {
        box.append(make("span", cell.shown, `chip ${kindOf(cell.shown)}`));
        for (const word of badges(cell)) box.append(" ", make("span", word, `chip ${word}`));
      } else {
        box.textContent = text(cell, name);
      }
      row.append(box);
    }
    rowsByKey.set(cell.key, row);
  }
  const haystack = new Map(data.cells.map((cell) => [cell.key, [
    ...data.columns.map(([name]) => text(cell, name)), cell.raw_status, cell.reason, ...badges(cell),
  ].join(" ").toLowerCase()]));

  const compare = (a, b) => {
    const x = a[order.column], y = b[order.column];
    const none = (v) => v === null || v === undefined || v === "";
    if (none(x) || none(y)) return none(x) - none(y);   // missing values last in either order
    const sign = order.down ? -1 : 1;
    return sign * (numeric.has(order.column) ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true }));
  };
  const refresh = () => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const solver = $("by-solver").value, verdict = $("by-verdict").value, odd = $("odd").checked;
    const cells = data.cells.filter((cell) =>
      (!solver || cell.solver === solver) && (!verdict || cell.shown === verdict)
      && (!odd || badges(cell).length > 0 || kindOf(cell.shown) === "failed")
      && words.every((word) => haystack.get(cell.key).includes(word)));
    if (order.column) cells.sort(compare);
    shown = cells;
    body.replaceChildren(...cells.map((cell) => rowsByKey.get(cell.key)));
    $("count").textContent = `${cells.length} of ${data.cells.length}`;
  };
  for (const button of document.querySelectorAll("#cell-table thead button")) {
    button.addEventListener("click", () => {
      const column = button.dataset.column;
      order.down = order.column === column ? !order.down : false;
      order.column = column;
      for (const head of document.querySelectorAll("#cell-table thead th")) head.setAttribute("aria-sort", "none");
      button.parentElement.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      refresh();
    });
  }
  for (const id of ["search", "by-solver", "by-verdict", "odd"]) $(id).addEventListener("input", refresh);
  refresh();

  // ---------------------------------------------------------------- one cell
  const dialog = $("detail");
  const open = (key) => {
    const cell = byKey.get(key);
    if (!cell) return;
    const box = make("div", undefined, "detail");
    const close = make("button", "×", "close");
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => dialog.close());
    box.append(close, make("h3", `${cell.solver} on ${cell.problem}`));
    const siblings = data.cells.filter((c) => c.solver === cell.solver && c.problem === cell.problem);
    if (siblings.length > 1) {
      const seeds = make("div", undefined, "seeds");
      for (const other of siblings) {
        const button = make("button", `seed ${other.seed}`);
        button.setAttribute("aria-current", String(other.key === key));
        button.addEventListener("click", () => open(other.key));
        seeds.append(button);
      }
      box.append(seeds);
    }
    const line = make("p");
    line.append(make("span", cell.shown, `chip ${kindOf(cell.shown)}`));
    for (const word of badges(cell)) line.append(" ", make("span", word, `chip ${word}`));
    box.append(line);
    const facts = make("dl", undefined, "facts");
    const fact = (name, value) => {
      if (value === null || value === undefined || value === "") return;
      facts.append(make("dt", name), make("dd", String(value)));
    };
    fact("proof", cell.proof);
    fact("margin", cell.margin === null ? "" : Number(cell.margin).toPrecision(3));
    fact("bracket", cell.lower === null ? "" : `${cell.lower} … ${cell.upper}`);
    fact("raw status", cell.raw_status);
    fact("raw claim", cell.claimed || "none");
    fact("stopped", cell.stop);
    fact("reason", cell.reason);
    fact("solve time", `${time(cell.solve_time)}${cell.cpu_time === null ? "" : ` (CPU ${time(cell.cpu_time)})`}`);
    fact("verification", time(cell.verify_time));
    fact("iterations", cell.iterations);
    fact("error", text(cell, "error"));
    fact("peak memory", text(cell, "peak_memory"));
    fact("problem", cell.summary);
    fact("attempts", cell.attempts > 1 ? cell.attempts : "");
    fact("evidence", cell.kept ? "kept in the database" : "");
    box.append(facts);
    const section = (name, words) => {
      if (!words) return;
      box.append(make("h4", name), make("pre", words));
    };
    section("Explanation", cell.explanation);
    section("Log", cell.log);
    if (cell.info && cell.info !== "{}") section("Information from the backend", JSON.stringify(JSON.parse(cell.info), null, 2));
    dialog.replaceChildren(box);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-cell]");
    if (target && !dialog.contains(target)) open(target.dataset.cell);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    const target = event.target.closest?.("[data-cell]");
    if (target) { event.preventDefault(); open(target.dataset.cell); }
  });

  // ---------------------------------------------------------------- data
  const download = (name, type, words) => {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([words], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  // Cells that are not computed yet have no row to filter; they are in the whole table only.
  const lines = new Map(data.csv.rows);
  $("get-csv").addEventListener("click", () => {
    const whole = shown.length === data.cells.length && !order.column;
    const keys = whole ? [...lines.keys()] : shown.map((cell) => cell.key);
    download(`${data.name}.csv`, "text/csv", data.csv.head + keys.map((key) => lines.get(key)).join(""));
  });
  $("get-json").addEventListener("click", () =>
    download(`${data.name}.json`, "application/json", JSON.stringify(shown, null, 1)));

  // ---------------------------------------------------------------- which time counts
  for (const key of document.querySelectorAll("button[data-clock]")) {
    key.addEventListener("click", () => {
      for (const each of document.querySelectorAll("button[data-clock]")) {
        each.setAttribute("aria-pressed", String(each === key));
      }
      for (const part of document.querySelectorAll("[data-ranking]")) {
        part.hidden = part.dataset.ranking !== key.dataset.clock;
      }
    });
  }
})();
