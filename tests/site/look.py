"""Open a built site in a browser: wide, on a phone, and dark. `make docs` runs it.

No page may be wider than the window, send a request to another host, raise a script error, or show text with
low contrast. Screenshots of some pages are written to the second folder, if given.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

LOOKS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1400, "height": 900}},
    "phone": {"viewport": {"width": 375, "height": 740}, "is_mobile": True, "has_touch": True},
    "dark": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"},
}
PICTURED = ("index", "start", "mathematics", "examples/portfolio", "examples/index", "truth", "reference")

#: JavaScript: pixels by which the page exceeds the window, and the smallest text contrast (WCAG).
MEASURE = """() => {
  const parts = text => text.match(/[0-9.]+/g).map(Number);
  const shine = colour => {
    const [r, g, b] = colour.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {  // blend translucent layers down to an opaque one
    const [r, g, b, share = 1] = e ? parts(getComputedStyle(e).backgroundColor) : [255, 255, 255];
    if (share === 1) return [r, g, b];
    const below = behind(e.parentElement);
    return [r, g, b].map((v, k) => share * v + (1 - share) * below[k]);
  };
  let contrast = 21;
  for (const e of document.querySelectorAll("article p, article li, article td, article h1, article h2")) {
    const [a, b] = [shine(parts(getComputedStyle(e).color)), shine(behind(e))];
    contrast = Math.min(contrast, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return [document.documentElement.scrollWidth - window.innerWidth, contrast];
}"""


def look(site: Path, pictures: Path | None = None) -> list[str] | None:
    """Return the errors of the pages, one line each; None without a browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        return None
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, settings in LOOKS.items():
            context = browser.new_context(**settings)
            page = context.new_page()
            heard: list[str] = []
            page.on("pageerror", lambda error, heard=heard: heard.append(f"script failed: {error}"))
            page.on("request", lambda asked, heard=heard: heard.append(asked.url))  # kept if it is not ours
            for path in sorted(site.rglob("*.html")):
                here = path.relative_to(site).with_suffix("").as_posix()
                page.goto(path.resolve().as_uri())
                beyond, contrast = page.evaluate(MEASURE)
                found = [words for words in heard if not words.startswith(("file:", "data:", "blob:"))]
                heard.clear()
                if beyond > 0:
                    found.append(f"{beyond} pixels wider than the window")
                if contrast < 4.5:
                    found.append(f"text with a contrast of {contrast:.1f}")
                wrong += [f"{here} ({name}): {words}" for words in found]
                if pictures is not None and here in PICTURED:
                    pictures.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=pictures / f"{here.replace('/', '-')}-{name}.png")
            context.close()
        browser.close()
    return wrong


if __name__ == "__main__":
    found = look(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    if found is None:
        print("no browser here: the pages were not looked at")
    else:
        print("\n".join(found) or "every page fits wide, on a phone and dark, and asks nobody else")
    sys.exit(bool(found))
