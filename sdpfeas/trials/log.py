"""What a trial prints, kept in bounded memory."""

from __future__ import annotations

__all__ = ["Log"]

#: Bytes of a log that are kept, from its beginning and from its end.
LOG_HEAD, LOG_TAIL = 48_000, 16_000


class Log:
    """Collects output: the beginning, the end, and how much was left out between.

    Parameters
    ----------
    mark : bytes
        When this comes by, what came before is forgotten: it was not the trial's own. Where it never comes,
        what the worker said while it started is all there is, and it is kept.
    """

    def __init__(self, mark: bytes = b"") -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0
        self._mark = mark
        self._recent = b""

    def feed(self, data: bytes) -> None:
        """Take some output."""
        if self._mark:
            seen = self._recent + data
            _, found, rest = seen.rpartition(self._mark)
            if found:
                self.head.clear()
                self.tail.clear()
                self.dropped = 0
                seen = data = rest
            self._recent = seen[1 - len(self._mark) :]
        room = LOG_HEAD - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * LOG_TAIL:
            self.dropped += len(self.tail) - LOG_TAIL
            del self.tail[:-LOG_TAIL]

    def text(self) -> str:
        """What was kept."""
        text = self.head.decode("utf-8", "replace")
        if self.dropped or len(self.tail) > LOG_TAIL:
            cut = self.dropped + max(len(self.tail) - LOG_TAIL, 0)
            text += f"\n[… {cut:,} bytes left out …]\n"
        return text + self.tail[-LOG_TAIL:].decode("utf-8", "replace")
