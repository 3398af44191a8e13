"""Server-sent events, cut out of a stream however it comes."""

from __future__ import annotations

_END = b"\n\n"
_OBJECT = b"data: {"
_FIELD = len(b"data: ")


class Events:
    """
    Attributes:
        unfinished: bytes of the event whose end has not come.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def unfinished(self) -> int:
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """What the events that end in these bytes carry, if it is a JSON object: neither comments nor what
        SGLang says after its last one."""
        if not self._rest and 0 <= data.find(_END) == len(data) - len(_END):  # mostly it is one, and whole
            return [data[_FIELD : -len(_END)]] if data.startswith(_OBJECT) else []
        rest, found = self._rest, []
        begin, seek = 0, max(0, len(rest) - 1)
        rest += data
        while (end := rest.find(_END, seek)) >= 0:
            if rest.startswith(_OBJECT, begin):
                found.append(bytes(rest[begin + _FIELD : end]))
            begin = seek = end + len(_END)
        del rest[:begin]
        return found
