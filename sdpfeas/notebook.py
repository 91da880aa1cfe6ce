"""HTML representations for notebooks: a :class:`Card` with a badge, facts and a small inline SVG chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sdpfeas.escaping import escape_html

#: Background colours of the badge, with enough contrast to white text.
TONES = {"feasible": "#1a7f37", "infeasible": "#b3261e", "undecided": "#8a6100", "plain": "#44546a"}

_FRAME = (
    "display:inline-block;max-width:640px;border:1px solid #8886;border-radius:8px;padding:10px 14px;"
    "font:13px/1.45 system-ui,sans-serif;color:inherit;text-align:left"
)
_BADGE = "display:inline-block;border-radius:4px;padding:1px 8px;color:#fff;font-weight:600"


@dataclass(frozen=True)
class Card:
    """The HTML representation of an object. All text is escaped; ``picture`` is SVG made by this module."""

    badge: str
    tone: str
    title: str = ""
    facts: Sequence[tuple[str, str]] = ()
    picture: str = ""
    note: str = ""

    def html(self) -> str:
        """Render the card as one HTML element."""
        rows = "".join(
            f'<tr><td style="padding:0 14px 0 0;text-align:left;opacity:.7">{escape_html(name)}</td>'
            f'<td style="padding:0;text-align:left">{escape_html(value)}</td></tr>'
            for name, value in self.facts
        )
        table = f'<table style="border:none;margin:6px 0 0;background:none">{rows}</table>' if rows else ""
        picture = f'<div style="margin-top:6px">{self.picture}</div>' if self.picture else ""
        note = f'<div style="margin-top:6px;opacity:.8">{escape_html(self.note)}</div>' if self.note else ""
        badge = f'<span style="{_BADGE};background:{TONES[self.tone]}">{escape_html(self.badge)}</span>'
        return f'<div style="{_FRAME}">{badge} {escape_html(self.title)}{table}{picture}{note}</div>'


# --- charts: inline SVG in the text colour of the notebook

WIDTH = 420
#: Height of the caption above a chart, in pixels.
CAPTION_PIXELS = 20
#: At most so many eigenvalues or steps are drawn.
MAX_BARS = 80
_FILL = "#4a78b5"
_BAD = "#b3261e"


def _svg(height: float, body: str, caption: str) -> str:
    """An SVG element with a caption above the chart."""
    tall = height + CAPTION_PIXELS
    return (
        f'<svg width="{WIDTH}" height="{tall:g}" viewBox="0 0 {WIDTH} {tall:g}" role="img" '
        f'style="max-width:100%" xmlns="http://www.w3.org/2000/svg"><title>{escape_html(caption)}</title>'
        f'<g opacity="0.8">{_text(2, 12, caption)}</g>'
        f'<g transform="translate(0 {CAPTION_PIXELS})">{body}</g></svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="currentColor" text-anchor="{anchor}">'
        f"{escape_html(text)}</text>"
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def bars(shares: Sequence[tuple[str, float]]) -> str:
    """Draw named shares between 0 and 1 as horizontal bars."""
    if not shares:
        return ""
    left, line = 190.0, 18.0
    most = max(share for _, share in shares) or 1.0
    body = ""
    for k, (name, share) in enumerate(shares):
        y = k * line
        width = max(1.0, (WIDTH - left - 52) * share / most)
        body += _text(left - 6, y + 13, _short(name, 30), "end")
        body += f'<rect x="{left:g}" y="{y + 4:g}" width="{width:.1f}" height="11" rx="2" fill="{_BAD}"/>'
        body += _text(left + width + 5, y + 13, f"{share:.1%}")
    return _svg(len(shares) * line + 2, body, "conflict: share of each in the contradiction")


def spectrum(blocks: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw the eigenvalues of named blocks (entries of vectors) in decreasing order, as bars from zero."""
    left, line = 110.0, 40.0
    body, k = "", 0
    for name, values in blocks:
        shown = sorted((float(v) for v in values if math.isfinite(v)), reverse=True)
        if not shown:
            continue
        high, low = max(shown[0], 0.0), min(shown[-1], 0.0)
        scale = (line - 10) / ((high - low) or 1.0)
        top, step = k * line + 5, max(len(shown) / MAX_BARS, 1.0)
        picked = [shown[int(i * step)] for i in range(min(len(shown), MAX_BARS))]
        picked[-1] = shown[-1]
        zero = top + high * scale
        wide = min((WIDTH - left - 100) / len(picked), 12.0)
        body += _text(left - 8, top + 18, _short(name, 16), "end")
        for i, value in enumerate(picked):
            tall = max(abs(value) * scale, 0.75)
            y, ink = (zero - tall, _FILL) if value >= 0.0 else (zero, _BAD)
            x = left + i * wide
            body += (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide - 1, 0.8):.1f}" '
                f'height="{tall:.1f}" fill="{ink}"/>'
            )
        body += _text(left + wide * len(picked) + 6, top + 18, f"{shown[-1]:.3g} … {shown[0]:.3g}")
        k += 1
    return _svg(k * line + 2, body, "eigenvalues of the point, block by block") if k else ""


def bracket_history(brackets: Sequence[tuple[float, float]]) -> str:
    """Draw the brackets after each step from left to right."""
    ends = [value for bracket in brackets for value in bracket if math.isfinite(value)]
    if not ends or len(brackets) < 2:  # a single bracket has no history
        return ""
    shown = list(brackets[-MAX_BARS:])
    tall, low, high = 84.0, min(ends), max(ends)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        inside = min(max(value, low), high)  # infinite ends are drawn at the border
        return 6 + (tall - 12) * (1 - (inside - low) / span)

    right = WIDTH - 110.0
    step = right / len(shown)
    body = ""
    for k, (lower, upper) in enumerate(shown):
        top, bottom = at(upper), at(lower)
        body += (
            f'<rect x="{k * step:.1f}" y="{top:.1f}" width="{max(step - 1, 1):.1f}" '
            f'height="{max(bottom - top, 1.5):.1f}" fill="{_FILL}" opacity="0.5"/>'
        )
    lower, upper = shown[-1]
    apart = max(at(lower), at(upper) + 14)
    digits = next(
        (k for k in (6, 9, 12) if f"{upper:.{k}g}" != f"{lower:.{k}g}"), 6
    )  # enough digits to tell the ends apart
    body += _text(right + 6, at(upper) + 4, f"{upper:.{digits}g}")
    body += _text(right + 6, apart + 4, f"{lower:.{digits}g}")
    return _svg(tall + 14, body, "the bracket after every step, from left to right")
