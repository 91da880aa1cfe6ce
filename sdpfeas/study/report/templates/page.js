"use strict";
// Every page: the switch between light and dark, legends of charts, tooltips.
(() => {
  const $ = (id) => document.getElementById(id);

  // ---------------------------------------------------------------- light and dark
  const root = document.documentElement;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

  // ---------------------------------------------------------------- legends: a click hides a series, hovering dims the others
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const parts = [...figure.querySelectorAll("svg.chart [data-series]")];
    for (const key of figure.querySelectorAll(".key")) {
      const mine = (part) => part.dataset.series === key.dataset.series;
      key.addEventListener("click", () => {
        const on = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(on));
        for (const part of parts.filter(mine)) part.classList.toggle("gone", !on);
      });
      key.addEventListener("mouseenter", () => { for (const part of parts) part.classList.toggle("off", !mine(part)); });
      key.addEventListener("mouseleave", () => { for (const part of parts) part.classList.remove("off"); });
    }
  }
  // ---------------------------------------------------------------- tooltips
  const tip = $("tip");
  document.addEventListener("mousemove", (event) => {
    const target = event.target.closest?.("[data-tip]");
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    const right = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${right}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  });
})();
