"""The names of what can be reproduced, for those who only want to list them."""

from __future__ import annotations

__all__ = ["TARGET_NAMES"]

#: Tables and figures of the paper, in its order.
TARGET_NAMES = (
    *(f"table{k}" for k in range(1, 7)),
    *(f"fig{k}" for k in range(1, 4)),
    "visual",
    "waveform",
    "letters",
    "umist",
)
