"""A card: a badge, a few facts, and perhaps a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdpfeas.harmless import in_html

__all__ = ["TONES", "Card"]

#: Colours of the badge: white on these can be read, in a light notebook and in a dark one.
TONES = {"feasible": "#1a7f37", "infeasible": "#b3261e", "undecided": "#8a6100", "plain": "#44546a"}

_FRAME = (
    "display:inline-block;max-width:640px;border:1px solid #8886;border-radius:8px;padding:10px 14px;"
    "font:13px/1.45 system-ui,sans-serif;color:inherit;text-align:left"
)
_BADGE = "display:inline-block;border-radius:4px;padding:1px 8px;color:#fff;font-weight:600"


@dataclass(frozen=True)
class Card:
    """What a notebook shows of one object. All text is escaped here; pictures come from ``pictures``.

    Attributes
    ----------
    badge : str
        The word that matters most.
    tone : str
        One of ``TONES``.
    title : str
        What stands beside the badge.
    facts : sequence of (str, str)
        Names and values.
    picture : str
        An SVG element, or nothing.
    note : str
        A sentence at the end.
    """

    badge: str
    tone: str
    title: str = ""
    facts: Sequence[tuple[str, str]] = ()
    picture: str = ""
    note: str = ""

    def html(self) -> str:
        """The card as one element."""
        rows = "".join(
            f'<tr><td style="padding:0 14px 0 0;text-align:left;opacity:.7">{in_html(name)}</td>'
            f'<td style="padding:0;text-align:left">{in_html(value)}</td></tr>'
            for name, value in self.facts
        )
        table = f'<table style="border:none;margin:6px 0 0;background:none">{rows}</table>' if rows else ""
        picture = f'<div style="margin-top:6px">{self.picture}</div>' if self.picture else ""
        note = f'<div style="margin-top:6px;opacity:.8">{in_html(self.note)}</div>' if self.note else ""
        badge = f'<span style="{_BADGE};background:{TONES[self.tone]}">{in_html(self.badge)}</span>'
        return f'<div style="{_FRAME}">{badge} {in_html(self.title)}{table}{picture}{note}</div>'
