"""Check a built site: internal links have a target, and no page loads anything from another host.

`make docs` runs it on the folder it built.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads a resource; links that a reader may follow are not included.
LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


class Page(HTMLParser):
    """Collect what a page loads and links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (tag, name) in LOADED:
                self.loads.append(value)
            elif value and (tag, name) == ("a", "href"):
                self.links.append(value)


def complaints(site: Path) -> list[str]:
    """Return the errors of a site, one line each."""
    found = []
    pages = sorted(site.rglob("*.html"))
    if not pages:
        return [f"{site} holds no page"]
    for path in pages:
        page, name = Page(path.read_text(encoding="utf-8")), path.relative_to(site)
        found += [f"{name} loads {target}" for target in page.loads if urlsplit(target).netloc]
        for target in (*page.loads, *page.links):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            if not (path.parent / unquote(parts.path)).exists():
                found.append(f"{name}: {target} leads nowhere")
    return found


if __name__ == "__main__":
    wrong = complaints(Path(sys.argv[1]))
    print("\n".join(wrong) or "every link leads somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(wrong))
