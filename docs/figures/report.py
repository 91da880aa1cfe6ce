"""Take the picture of a report that the README shows: `make demo`, then `python docs/figures/report.py`.

Needs Debian's chromium, and playwright from the extra ``test``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]


def main(report: Path) -> None:
    """Write docs/figures/report.png, the verdicts of a report."""
    program = shutil.which("chromium") or sys.exit("no chromium on the PATH")
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.locator("#verdicts").screenshot(path=ROOT / "docs" / "figures" / "report.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "demo-report.html")
