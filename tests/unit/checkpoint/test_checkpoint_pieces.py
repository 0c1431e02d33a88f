"""Pieces: what is read is what was written, the safetensors library agrees, and damage is named, never loaded."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from fleet.checkpoint import FileInfo, read_piece, write_piece
from fleet.checkpoint.files.pieces import decode
from fleet.errors import CheckpointError

TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "keys": np.array([-(2**63), 0, 2**63 - 1]),
    "values": np.array([[1.5, np.nan], [np.inf, -0.0], [3e38, 1e-45]], np.float32),
    "bits": np.array([0, 0x7E01, 0xFFFF], np.uint16),
    "seen": np.array([0, 2**32 - 1, 7], np.uint32),
    "none": np.zeros((0, 4), np.float32),
    "no width": np.zeros((3, 0), np.float32),
    "x / ü": np.array(2.5),
}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        (one[name].dtype, one[name].shape, one[name].tobytes())
        == (other[name].dtype, other[name].shape, other[name].tobytes())
        for name in one
    )


@pytest.fixture
def piece(tmp_path: Path) -> tuple[Path, FileInfo]:
    path = tmp_path / "p.safetensors"
    return path, write_piece(path, TENSORS, {"dtype": "bfloat16"})


def test_round_trip(piece: tuple[Path, FileInfo]) -> None:
    path, info = piece
    assert (info.name, info.size_bytes) == ("p.safetensors", path.stat().st_size)
    found = read_piece(path, info)
    assert same(found, TENSORS)
    assert all(array.flags.writeable and array.flags.aligned and array.flags.c_contiguous for array in found.values())


def test_the_library_reads_our_files(piece: tuple[Path, FileInfo]) -> None:
    assert same(safetensors.numpy.load_file(piece[0]), TENSORS)
    with safetensors.safe_open(piece[0], framework="np") as file:
        assert file.metadata() == {"dtype": "bfloat16"}


def test_we_read_the_library_s_files() -> None:
    data = safetensors.numpy.save(TENSORS, {"a": "b"})
    assert same(decode(np.frombuffer(data, np.uint8), "f"), TENSORS)


def test_a_tensor_that_is_not_contiguous(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    info = write_piece(tmp_path / "p", {"a": array}, {})
    assert (read_piece(tmp_path / "p", info)["a"] == array).all()


def test_more_than_one_chunk(tmp_path: Path) -> None:
    array = np.arange(1_000_003, dtype=np.int64)
    info = write_piece(tmp_path / "p", {"a": array}, {})
    assert (read_piece(tmp_path / "p", info)["a"] == array).all()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, -8, -1])
def test_a_truncated_file_is_named(piece: tuple[Path, FileInfo], length: int) -> None:
    path, info = piece
    os.truncate(path, length % info.size_bytes)
    with pytest.raises(CheckpointError, match=f"{path} is damaged: it has {length % info.size_bytes} bytes"):
        read_piece(path, info)


def test_a_longer_file_is_named(piece: tuple[Path, FileInfo]) -> None:
    path, info = piece
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CheckpointError, match="saved were"):
        read_piece(path, info)


def test_every_flipped_bit_is_found(piece: tuple[Path, FileInfo]) -> None:
    path, info = piece
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 5):
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match="its checksum is"):
            read_piece(path, info)
        data[at] ^= 1 << at % 8


def test_a_missing_file_a_folder_and_a_pipe(piece: tuple[Path, FileInfo], tmp_path: Path) -> None:
    path, info = piece
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        read_piece(path, info)
    path.mkdir()
    with pytest.raises(CheckpointError, match="not a plain file"):
        read_piece(path, info)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="not a plain file"):
        read_piece(path, info)


def test_writing_twice_is_refused_and_keeps_the_first(piece: tuple[Path, FileInfo]) -> None:
    path, info = piece
    with pytest.raises(CheckpointError, match="written before in the same save"):
        write_piece(path, {}, {})
    assert same(read_piece(path, info), TENSORS)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="its folder is gone"):
        write_piece(tmp_path / "gone" / "p", {}, {})


def test_an_interrupted_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_piece(tmp_path / "p", TENSORS, {})
    assert not list(tmp_path.iterdir())


def pack(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def tensor(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE = {
    "huge header": (2**63).to_bytes(8, "little") + b"{}",
    "header beyond the end": (3).to_bytes(8, "little") + b"{}",
    "not JSON": pack(b"{]"),
    "not UTF-8": pack(b'{"\xff": 1}'),
    "not an object": pack([1]),
    "deep": pack(b"[" * 100_000),
    "a number too long": pack(b'{"a": ' + b"9" * 10_000 + b"}"),
    "twice": pack(b'{"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "a": {}}', b"x"),
    "tensor is a list": pack({"a": []}),
    "no shape": pack({"a": {"dtype": "F32", "data_offsets": [0, 0]}}),
    "dtype unknown": pack({"a": tensor("F3")}, bytes(8)),
    "dtype is a number": pack({"a": tensor(3)}, bytes(8)),
    "negative shape": pack({"a": tensor(shape=[-1, -2])}, bytes(8)),
    "shape of bools": pack({"a": tensor(shape=[True, 2])}, bytes(8)),
    "shape of floats": pack({"a": tensor(shape=[2.0])}, bytes(8)),
    "shape too large": pack({"a": tensor(shape=[2**62, 4])}, bytes(8)),
    "shape too small": pack({"a": tensor(shape=[1])}, bytes(8)),
    "shape overflows to zero": pack({"a": tensor(shape=[2**32, 2**32], offsets=[0, 0])}),
    "shape empty but vast": pack({"a": tensor(shape=[0, 2**62, 2**62], offsets=[0, 0])}),
    "dimensions": pack({"a": tensor("U8", [1] * 1000, [0, 1])}, b"x"),
    "offsets beyond the end": pack({"a": tensor(offsets=[0, 8])}, bytes(7)),
    "offsets reversed": pack({"a": tensor(offsets=[8, 0])}, bytes(8)),
    "three offsets": pack({"a": tensor(offsets=[0, 4, 8])}, bytes(8)),
    "overlap": pack({"a": tensor(), "b": tensor(offsets=[4, 12])}, bytes(12)),
    "gap": pack({"a": tensor(), "b": tensor(offsets=[9, 17])}, bytes(17)),
    "bytes left over": pack({"a": tensor()}, bytes(9)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"^evil.* is damaged: ") as caught:
        decode(np.frombuffer(HOSTILE[name], np.uint8), "evil")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_a_tensor_at_an_odd_place_is_moved() -> None:
    header = {"a": tensor("U8", [1], [0, 1]), "b": tensor("I64", [1], [1, 9])}
    data = pack(header, b"x" + (7).to_bytes(8, "little"))
    found = decode(np.frombuffer(data, np.uint8), "f")
    assert found["b"].flags.aligned
    assert found["b"].tolist() == [7]


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_random_bytes_are_refused_or_read(header: bytes, body: bytes) -> None:
    for data in (header, pack(header, body)):
        try:
            decode(np.frombuffer(data, np.uint8), "f")
        except CheckpointError as error:
            is_named = "is damaged" in str(error) or "which is never read here" in str(error)
            assert is_named


def test_a_file_cut_short_is_no_pickle_though_it_begins_like_one(tmp_path: Path) -> None:
    cut = (128).to_bytes(8, "little") + b"{"
    with pytest.raises(CheckpointError, match="is damaged: its header claims 128 bytes of 1"):
        decode(np.frombuffer(cut, np.uint8), "f")
    with pytest.raises(CheckpointError, match="is a pickle"):
        decode(np.frombuffer(pickle.dumps(list(range(9))), np.uint8), "f")


def test_a_manifest_that_lies_about_the_sum(piece: tuple[Path, FileInfo]) -> None:
    path, info = piece
    with pytest.raises(CheckpointError, match="its checksum is crc32c:.*, saved was crc32c:00000000"):
        read_piece(path, replace(info, checksum="crc32c:00000000"))
