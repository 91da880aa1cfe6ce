"""Check a built site: links within it lead somewhere, and no page loads anything from elsewhere.

Run by `make docs` on the folder it built.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads something by itself; a link that a reader may follow is not among them.
LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


class Page(HTMLParser):
    """What a page loads and what it links to."""

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
    """What is wrong with a site, one line each."""
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
