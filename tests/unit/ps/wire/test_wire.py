"""Messages as bytes: what goes in comes out, protobuf agrees, and no bytes whatever do more than raise WireError."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fleet.errors import UsageError
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire

ROOT = Path(__file__).parents[4]
TYPES = [f"{method}{kind}" for method in wire.METHODS for kind in ("Request", "Reply")]

headers = st.builds(
    ps_pb2.PushRequest.Header,
    sequence=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**64 - 1),
    dense_lrs=st.lists(st.floats(allow_nan=False), max_size=20),
    want_dense=st.booleans(),
)
tensors = st.lists(st.binary(max_size=300), max_size=8)
varints = st.integers(0, 2**70).map(lambda value: bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 63]))
# Pieces from which messages are made, put together without regard to sense.
pieces = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"\x0a", b"\x12", b"\x7a", b"\x12\x03abc", b"\x0a\x02\x10\x07", b"\x08\x01", b"\x15abcd", b"\x0b"]
    ),
    varints,
)


@given(headers, tensors)
def test_what_goes_in_comes_out_aligned(header: ps_pb2.PushRequest.Header, given_tensors: list[bytes]) -> None:
    data = wire.encode("PushRequest", header, given_tensors)
    read, views = wire.decode("PushRequest", data)
    assert read == header
    assert [bytes(view) for view in views] == given_tensors
    start = np.frombuffer(data, np.uint8).ctypes.data
    for view in views:
        assert view.readonly
        if view.nbytes:
            assert (np.frombuffer(view, np.uint8).ctypes.data - start) % wire.ALIGNMENT == 0


@given(headers, tensors)
def test_protobuf_reads_what_we_write(header: ps_pb2.PushRequest.Header, given_tensors: list[bytes]) -> None:
    message = ps_pb2.PushRequest.FromString(wire.encode("PushRequest", header, given_tensors))
    assert message.header == header
    assert list(message.tensors) == given_tensors


@given(headers, tensors, st.binary(max_size=20))
def test_we_read_what_protobuf_writes(
    header: ps_pb2.PushRequest.Header, given_tensors: list[bytes], padding: bytes
) -> None:
    data = ps_pb2.PushRequest(header=header, tensors=given_tensors, padding=padding).SerializeToString()
    read, views = wire.decode("PushRequest", data)
    assert read == header
    assert [bytes(view) for view in views] == given_tensors


@pytest.mark.parametrize("message_type", TYPES)
def test_every_message_has_the_shape_that_is_written_by_hand(message_type: str) -> None:
    message = getattr(ps_pb2, message_type)
    assert {field.number: field.name for field in message.DESCRIPTOR.fields} == {
        1: "header",
        2: "tensors",
        15: "padding",
    }
    header, views = wire.decode(message_type, wire.encode(message_type, message.Header(), [b"a", b"", b"bcd"]))
    assert header == message.Header()
    assert views == [b"a", b"", b"bcd"]


@given(st.lists(pieces, max_size=30).map(b"".join))
@example(b"\x12\xff\xff\xff\xff\x0f")
@example(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\xff" * 30)
@example(b"\x0a\x05\x1a\x03\xff\xfe\xfd")
@example(b"\x00\x00")
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    try:
        header, views = wire.decode("PushRequest", data)
    except wire.WireError:
        return
    message = ps_pb2.PushRequest.FromString(data)  # what we take, protobuf takes too, and reads the same from it
    assert header.SerializeToString() == message.header.SerializeToString()
    assert [bytes(view) for view in views] == list(message.tensors)


@given(headers, tensors, st.data())
def test_a_message_that_is_cut_or_damaged_is_read_or_refused(
    header: ps_pb2.PushRequest.Header, given_tensors: list[bytes], choice: st.DataObject
) -> None:
    data = bytearray(wire.encode("PushRequest", header, given_tensors))
    place = choice.draw(st.integers(0, len(data) - 1))
    for damaged in (data[:place], data[:place] + bytes([choice.draw(st.integers(0, 255))]) + data[place + 1 :]):
        ours = _outcome(lambda raw: wire.decode("PushRequest", raw)[0], bytes(damaged))
        theirs = _outcome(lambda raw: ps_pb2.PushRequest.FromString(raw).header, bytes(damaged))
        assert ours == theirs or ours is None


def _outcome(read: Callable[[bytes], Message], data: bytes) -> Message | None:
    try:
        return read(data)
    except (wire.WireError, DecodeError):
        return None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x12\x05ab", "its 4 bytes end inside a field"),
        (b"\x12\xff\xff\xff\xff\x0f", "its 6 bytes end inside a field"),
        (b"\x12" + b"\xff" * 10, "a number of more than 10 bytes"),
        (b"\x02\x00", "field number 0"),
        (b"\x1b\x1c", "field 3 has wire type 3"),
        (b"\x0a\x02\x08\xff", "not a PushRequest"),
    ],
)
def test_an_error_says_what_is_wrong_in_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(wire.WireError, match=reason) as caught:
        wire.decode("PushRequest", data)
    assert "\n" not in str(caught.value)


def test_unknown_fields_are_skipped() -> None:
    unknown = b"\x18\x96\x01" + b"\x21" + bytes(8) + b"\x2d" + bytes(4) + b"\x32\x02hi"
    data = unknown + wire.encode("PullReply", ps_pb2.PullReply.Header(version=5), [b"x"]) + unknown
    header, views = wire.decode("PullReply", data)
    assert header == ps_pb2.PullReply.Header(version=5)
    assert views == [b"x"]


def test_arrays_of_any_shape_and_type_are_tensors() -> None:
    given_arrays: list[NDArray[Any]] = [
        np.arange(6, dtype=np.int64),
        np.ones((3, 5), np.float32),
        np.zeros((0, 4), np.float32),
    ]
    _, views = wire.decode("PullReply", wire.encode("PullReply", ps_pb2.PullReply.Header(), given_arrays))
    for view, array in zip(views, given_arrays, strict=True):
        np.testing.assert_array_equal(np.frombuffer(view, array.dtype).reshape(array.shape), array)


def test_too_many_tensors_are_refused() -> None:
    with pytest.raises(UsageError, match=r"a Pull request of [\d,]+ MiB and 70000 tensors .* smaller batches"):
        wire.encode("PullRequest", ps_pb2.PullRequest.Header(), [b"x"] * 70_000)


def test_a_message_over_the_limit_names_method_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 1 << 20)
    with pytest.raises(UsageError, match=r"a Push reply of 2 MiB and 1 tensors is over the limit of 1 MiB .* smaller"):
        wire.encode("PushReply", ps_pb2.PushReply.Header(), [bytes(2 << 20)])


def test_a_swarm_of_empty_tensors_is_refused() -> None:
    with pytest.raises(wire.WireError, match="more than 131072 fields"):
        wire.decode("PushRequest", b"\x12\x00" * 200_000)


def test_the_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, generate; [generate.generate(pathlib.Path(sys.argv[1]), n) for n in ('ps', 'serve')]"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT / "proto", check=True, timeout=60)
    source = ROOT / "src"
    for name in ("ps_pb2.py", "ps_pb2.pyi", "serve_pb2.py", "serve_pb2.pyi"):
        made = (source / ("fleet/ps" if name.startswith("ps") else "fleet_serve") / "proto" / name).read_text()
        assert made == (tmp_path / name).read_text(), f"{name} is out of date; run make proto"
