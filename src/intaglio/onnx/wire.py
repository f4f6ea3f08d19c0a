"""Taking large tensors out of a model's bytes before protobuf copies them twice.

Protobuf copies every tensor when it parses a message and again when the tensor is read, and it refuses messages over
2 GB. So the bytes are walked first, three levels deep (model, graph, initializer), and the raw data of large
initializers is cut out. Whatever looks odd is left alone: protobuf then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

MODEL_GRAPH = 7
GRAPH_INITIALIZER = 5
TENSOR_RAW_DATA = 9

LARGE = 2**16
"""Raw data of at least so many bytes is cut out."""

Piece: TypeAlias = "memoryview | bytes"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _OddError(Exception):
    """The bytes are no plain message."""


def split_model(data: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    """The model without the raw data of large initializers, and that data by the initializer's position."""
    pieces: list[memoryview | bytes] = []
    cut: dict[int, memoryview] = {}
    count = 0
    try:
        for field, start, payload, end in _fields(data):
            if field == MODEL_GRAPH and payload is not None:
                graph, count = _split_graph(payload, cut, count)
                pieces += _message(MODEL_GRAPH, graph)
            else:
                pieces.append(data[start:end])
    except _OddError:
        return bytes(data), {}
    return b"".join(pieces), cut


def joined_model(message: bytes, data_of: Callable[[bytes], tuple[bytes, memoryview] | None]) -> list[Piece]:
    """The bytes of a model, as pieces, in which large initializers get their raw data back.

    `data_of` is given the message of each initializer. It returns that message as it shall be without its raw data,
    and the raw data, or None where the initializer stays as it is.
    """
    pieces: list[Piece] = []
    data = memoryview(message)
    for field, start, payload, end in _fields(data):
        if field == MODEL_GRAPH and payload is not None:
            graph = _joined_graph(payload, data_of)
            pieces += [_header(MODEL_GRAPH, sum(map(len, graph))), *graph]
        else:
            pieces.append(data[start:end])
    return pieces


def _joined_graph(graph: memoryview, data_of: Callable[[bytes], tuple[bytes, memoryview] | None]) -> list[Piece]:
    pieces: list[Piece] = []
    for field, start, payload, end in _fields(graph):
        found = data_of(bytes(payload)) if field == GRAPH_INITIALIZER and payload is not None else None
        if found is None:
            pieces.append(graph[start:end])
            continue
        tensor, raw = found
        key = _header(TENSOR_RAW_DATA, len(raw))
        pieces += [_header(GRAPH_INITIALIZER, len(tensor) + len(key) + len(raw)), tensor, key, raw]
    return pieces


def _split_graph(graph: memoryview, cut: dict[int, memoryview], count: int) -> tuple[bytes, int]:
    pieces: list[memoryview | bytes] = []
    for field, start, payload, end in _fields(graph):
        if field == GRAPH_INITIALIZER and payload is not None:
            rest = _split_tensor(payload, cut, count) if len(payload) >= LARGE else None
            pieces += [graph[start:end]] if rest is None else _message(GRAPH_INITIALIZER, rest)
            count += 1
        else:
            pieces.append(graph[start:end])
    return b"".join(pieces), count


def _split_tensor(tensor: memoryview, cut: dict[int, memoryview], position: int) -> bytes | None:
    """The tensor without its raw data; None where that is small or stands there twice."""
    fields = list(_fields(tensor))
    raw = [payload for field, _, payload, _ in fields if field == TENSOR_RAW_DATA and payload is not None]
    if len(raw) != 1 or len(raw[0]) < LARGE:
        return None
    cut[position] = raw[0]
    return b"".join(tensor[start:end] for field, start, _, end in fields if field != TENSOR_RAW_DATA)


def _message(field: int, payload: bytes) -> list[memoryview | bytes]:
    return [_header(field, len(payload)), payload]


def _header(field: int, length: int) -> bytes:
    """What stands before the payload of a field that has a length."""
    return _varint(field << 3 | _BYTES) + _varint(length)


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview | None, int]]:
    """Each field's number, where it starts, its payload where it has a length, and where it ends."""
    place = 0
    while place < len(data):
        start = place
        key, place = _read_varint(data, place)
        kind, length = key & 7, 0
        if kind == _VARINT:
            _, place = _read_varint(data, place)
        elif kind == _BYTES:
            length, place = _read_varint(data, place)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(data) + 1)
        end = place + length
        if end > len(data):
            raise _OddError
        yield key >> 3, start, data[place:end] if kind == _BYTES else None, end
        place = end


def _read_varint(data: memoryview, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise _OddError
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise _OddError


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
