"""Messages to bytes and back: a header and raw tensors, copied once on the way out and never on the way in.

Every message of proto/ps.proto has the shape `{Header header = 1; repeated bytes tensors = 2; bytes padding = 15}`.
What is written here is such a message to every other program too, only laid out with care: the fields of the top
level are written here and read by native code (csrc/plane/message.cc), so that tensors go from where they lie into the
message in one step, begin at a multiple of 8 in it, and are handed to the receiver as views of what arrived.

>>> from fleet.ps.proto import ps_pb2
>>> data = encode("PullRequest", ps_pb2.PullRequest.Header(version=7), [b"12345678"])
>>> header, tensors = decode("PullRequest", data)
>>> header.version, bytes(tensors[0])
(7, b'12345678')
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.message import DecodeError, Message

from fleet import _native
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
_HEADER, _TENSOR, _PADDING = (bytes([number << 3 | _LENGTH_DELIMITED]) for number in (1, 2, 15))


class WireError(CommunicationError):
    """Bytes that are not a message."""


def _padding(num_bytes: int) -> bytes:
    """A field without meaning that fills so many bytes; it takes 2 at least, so for 1 it takes ALIGNMENT more."""
    if num_bytes == 0:
        return b""
    size = num_bytes - 2 if num_bytes > 1 else num_bytes - 2 + ALIGNMENT
    return _PADDING + bytes([size]) + bytes(size)


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
    view = memoryview(data).toreadonly()
    try:
        text, extents = _native.read_message(data)
        header = _HEADERS[message_type].FromString(text)
    except (ValueError, DecodeError) as error:
        raise WireError(f"not a {message_type}: {error}") from None
    return header, [view[begin:end] for begin, end in extents]


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
