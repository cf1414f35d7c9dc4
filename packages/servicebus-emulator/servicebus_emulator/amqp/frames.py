"""Frames in a stream of bytes (AMQP 1.0 part 2, 2.3): an eight-byte protocol header, then length-prefixed frames."""

from __future__ import annotations

import struct
from typing import NamedTuple

from servicebus_emulator.amqp.errors import FramingError
from servicebus_emulator.amqp.performatives import Body, encode_body

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
AMQP_FRAME, SASL_FRAME = 0, 1
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"
#: length of a frame header, the minimum length of a frame
_HEADER_BYTES = 8

_header = struct.Struct(">IBBH")


class Frame(NamedTuple):
    kind: int
    channel: int
    #: the performative and its payload; empty for a heartbeat
    body: bytes


class FrameBuffer:
    """A buffer of received bytes, which splits them into headers and frames."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._data = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._data[: self._start]
            self._start = 0
        self._data += data

    def next_header(self) -> bytes | None:
        """Returns the next eight bytes, or None until these bytes are complete. Raises FramingError if the bytes cannot
        be a protocol header.
        """
        head = bytes(self._data[self._start : self._start + 8])
        if not head.startswith(b"AMQP"[: len(head)]):
            raise FramingError("the connection does not begin with an AMQP header")
        if len(head) < 8:
            return None
        self._start += 8
        return head

    def next_frame(self) -> Frame | None:
        """Returns the next frame, or None until the frame is complete. Raises FramingError if the frame is too large or
        its header is invalid.
        """
        start, data = self._start, self._data
        if len(data) - start < _HEADER_BYTES:
            return None
        size, offset_words, kind, channel = _header.unpack_from(data, start)
        offset = offset_words * 4
        if not _HEADER_BYTES <= offset <= size or kind > 1:
            raise FramingError("malformed frame header")
        if size > self._max_frame_bytes:
            raise FramingError(f"a frame of {size} bytes; the agreed maximum is {self._max_frame_bytes}")
        if len(data) - start < size:
            return None
        self._start = start + size
        return Frame(kind, channel, bytes(data[start + offset : start + size]))


def encode_frame(body: Body, channel: int = 0, payload: bytes = b"", kind: int = AMQP_FRAME) -> bytes:
    """Returns the bytes of one frame."""
    raw = encode_body(body)
    return _header.pack(8 + len(raw) + len(payload), 2, kind, channel) + raw + payload
