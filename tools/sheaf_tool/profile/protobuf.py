# SPDX-License-Identifier: MIT
"""As much of protobuf's encoding as a profile needs. A field that is 0 or empty is left out, as by every encoder."""
from __future__ import annotations

from typing import Iterable

LEAST, MOST = -1 << 63, (1 << 63) - 1
NUMBER, BYTES = 0, 2  # wire types


def varint(value: int) -> bytes:
    """Negative ones as two's complement of 64 bits, in ten bytes."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7f:
        found.append(value & 0x7f | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def signed(value: float) -> int:
    """The nearest one that fits into int64."""
    return max(LEAST, min(MOST, round(value)))


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | NUMBER) + varint(value) if value else b""


def message(field: int, value: bytes) -> bytes:
    """Also when it is empty: an element of a repeated field."""
    return varint(field << 3 | BYTES) + varint(len(value)) + value


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of numbers."""
    data = b"".join(map(varint, values))
    return message(field, data) if data else b""
