"""Messages to bytes and back: a header and raw tensors, copied once on the way out and never on the way in.

Every message of proto/ps.proto has the shape `{Header header = 1; repeated bytes tensors = 2; bytes padding = 15}`.
What is written here is such a message to every other program too, only laid out with care: the fields of the top
level are written and read by hand, so that tensors go from where they lie into the message in one step, begin at a
multiple of 8 in it, and are handed to the receiver as views of what arrived.

>>> from fleet.ps.proto import ps_pb2
>>> data = encode("PullRequest", ps_pb2.PullRequest.Header(version=7), [b"12345678"])
>>> header, tensors = decode("PullRequest", data)
>>> header.version, bytes(tensors[0])
(7, b'12345678')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.message import DecodeError, Message

from fleet.errors import CommunicationError, UsageError
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensor: TypeAlias = "bytes | memoryview | NDArray[Any]"
Tensors: TypeAlias = "Sequence[Tensor]"
"""C-contiguous, little-endian."""

SERVICE = "fleet.ps.ParameterServer"
METHODS: tuple[str, ...] = tuple(ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"].methods_by_name)

MAX_MESSAGE_BYTES = 1 << 30
# A message of 1 GiB could hold 500 million empty tensors; each costs the receiver an object.
MAX_FIELDS = 1 << 17

ALIGNMENT = 8
_LENGTH_DELIMITED = 2
_HEADER_TAG, _TENSOR_TAG, _PADDING_TAG = (number << 3 | _LENGTH_DELIMITED for number in (1, 2, 15))
_HEADER, _TENSOR = bytes([_HEADER_TAG]), bytes([_TENSOR_TAG])


class WireError(CommunicationError):
    """Bytes that are not a message."""


def _padding(num_bytes: int) -> bytes:
    """A field without meaning. It takes 2 bytes at least, so 1 byte is made up by a whole turn more."""
    if num_bytes == 0:
        return b""
    size = num_bytes - 2 if num_bytes > 1 else num_bytes - 2 + ALIGNMENT
    return bytes([_PADDING_TAG, size]) + bytes(size)


_PADDINGS = tuple(map(_padding, range(ALIGNMENT)))
_HEADERS: dict[str, type[Message]] = {
    name: getattr(ps_pb2, name).Header for method in METHODS for name in (f"{method}Request", f"{method}Reply")
}


def encode(message_type: str, header: Message, tensors: Tensors) -> bytes:
    """The bytes of a message, for example of a `PullRequest`; UsageError if it is too large to send."""
    assert type(header) is _HEADERS[message_type], f"{type(header).__qualname__} is no header of {message_type}"
    text = header.SerializeToString()
    pieces: list[Any] = [_HEADER + _varint(len(text)) + text]
    end = len(_HEADER) + len(_varint(len(text))) + len(text)
    for tensor in tensors:
        size = _size(tensor)
        start = _TENSOR + _varint(size)
        padding = _PADDINGS[-(end + len(start)) % ALIGNMENT]
        pieces += (padding + start, tensor)
        end += len(padding) + len(start) + size
    if end > MAX_MESSAGE_BYTES or len(pieces) > MAX_FIELDS:
        raise _too_large(message_type, end, len(tensors))
    return b"".join(pieces)


def decode(message_type: str, data: bytes) -> tuple[Message, list[memoryview]]:
    """The header and the tensors of a message, which are read-only views of `data`; WireError if it is not one.

    Fields that are not known are skipped, as protobuf does, so that a later version may add some.
    """
    header = _HEADERS[message_type]()
    view = memoryview(data).toreadonly()
    tensors: list[memoryview] = []
    try:
        position = num_fields = 0
        while position < len(data):
            tag, position = _read_varint(data, position, 5)
            begin, end = _extent(data, tag, position)
            if tag == _TENSOR_TAG:
                tensors.append(view[begin:end])
            elif tag == _HEADER_TAG:
                header.MergeFromString(bytes(view[begin:end]))
            position = end
            num_fields += 1
            if num_fields > MAX_FIELDS:
                raise WireError(f"more than {MAX_FIELDS} fields")
    except IndexError:
        raise WireError(f"not a {message_type}: its {len(data)} bytes end inside a field") from None
    except (WireError, DecodeError) as error:
        raise WireError(f"not a {message_type}: {error}") from None
    return header, tensors


def _extent(data: bytes, tag: int, position: int) -> tuple[int, int]:
    """Where the content of a field begins and ends; IndexError if the data is shorter than that."""
    kind = tag & 7
    if not 0 < tag >> 3 < 1 << 29:
        raise WireError(f"field number {tag >> 3}")
    if kind == _LENGTH_DELIMITED:
        size, begin = _read_varint(data, position)
        end = begin + size
    elif kind == 0:
        begin, end = position, _read_varint(data, position)[1]
    elif kind in (1, 5):
        begin, end = position, position + (8 if kind == 1 else 4)
    else:
        raise WireError(f"field {tag >> 3} has wire type {kind}")
    if end > len(data):
        raise IndexError
    return begin, end


def _read_varint(data: bytes, position: int, most: int = 10) -> tuple[int, int]:
    """A number and the position after it; IndexError at the end of the data."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for number in range(1, most):
        byte = data[position + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80 and value < 1 << 64:
            return value, position + number + 1
    raise WireError(f"a number of more than {most} bytes")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def too_large(message_type: str, tensors: Tensors) -> UsageError:
    """The error for a message that cannot be sent."""
    return _too_large(message_type, sum(map(_size, tensors)), len(tensors))


def _size(tensor: Tensor) -> int:
    return len(tensor) if isinstance(tensor, bytes) else tensor.nbytes


def _too_large(message_type: str, size: int, num_tensors: int) -> UsageError:
    kind = "Reply" if message_type.endswith("Reply") else "Request"
    return UsageError(
        f"a {message_type.removesuffix(kind)} {kind.lower()} of {size / 2**20:,.0f} MiB and {num_tensors} tensors is "
        f"over the limit of {MAX_MESSAGE_BYTES >> 20} MiB and {MAX_FIELDS // 2 - 1} tensors; use smaller batches, or "
        "more servers"
    )
