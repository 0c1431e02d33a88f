"""Small files that would take memory or time without end: each is refused, in no time."""

from __future__ import annotations

import pickle
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import CheckpointError
from fleet_paddle import imperative
from fleet_paddle.foreign import loading, pickled
from fleet_paddle.foreign.messages import TENSOR, message
from fleet_paddle.foreign.pickled import decode
from fleet_paddle.foreign.tensors import read_one
from fleet_paddle.imperative.files import STRUCTURE
from fleet_programs.io.files import write_alone

DEEP = 90


class Reduced:
    """An object that a pickle makes by calling a function."""

    def __init__(self, function: Any, *given: Any) -> None:
        self.call = function, given

    def __reduce__(self) -> Any:
        return self.call


def twice(kind: type[Any], depth: int = DEEP) -> Any:
    """A list of twice the same list, and so on: few bytes, and two to the power of `depth` ends."""
    made = kind((1, 2))
    for _ in range(depth):
        made = kind((made, made))
    return made


def as_key(depth: int = DEEP) -> bytes:
    """A pickle of a dict with such a tuple for its key, which Python itself could not write."""
    inner = pickle.dumps(twice(tuple, depth), 2)[2:-1]
    return b"\x80\x02}" + inner + b"K\x01s."


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02}r\xff\xff\xff\x7f.",  # LONG_BINPUT: 16 GiB of places
        b"\x80\x02}p2147483647\n.",
        b"\x80\x02}p-5\n.",
    ],
)
def test_a_number_to_remember_by_is_no_longer_than_the_file(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="a value with the number"):
        decode(data, "it")


def test_no_hash_of_a_tuple_is_looked_for() -> None:
    with pytest.raises(CheckpointError, match="a key that is a tuple"):
        decode(as_key(), "it")
    with pytest.raises(CheckpointError, match="a key that is a any"):
        decode(b"\x80\x02}" + pickle.dumps(twice(tuple, 2), 2)[2:-1] + b"2s.", "it")  # DUP
    with pytest.raises(CheckpointError, match="a key that is a tuple"):
        decode(pickle.dumps(Reduced(dict, [(twice(tuple), 1)]), 4), "it")
    with pytest.raises(CheckpointError, match="holds a set"):
        decode(pickle.dumps({1, 2}, 4), "it")


@pytest.mark.parametrize("kind", [list, tuple])
def test_what_is_shared_is_taken_once(kind: type[Any], tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(pickle.dumps({"a": twice(kind)}, 4))
    found = imperative.load(tmp_path / "it")["a"]
    for _ in range(DEEP):
        assert found[0] is found[1]
        found = found[0]


def test_errors_do_not_write_down_what_is_endless() -> None:
    import _codecs

    for call in (Reduced(_codecs.encode, "a", twice(list)), Reduced(np.dtype, twice(list))):
        with pytest.raises(CheckpointError, match="a list"):
            decode(pickle.dumps(call, 4), "it")


def test_pieces_are_arrays(tmp_path: Path) -> None:
    told = {"w": {"OriginShape": (2,), "slices": ["part"]}}
    (tmp_path / "it").write_bytes(pickle.dumps({"part": twice(list), pickled.SLICED: told}, 2))
    with pytest.raises(CheckpointError, match="one is no array"):
        imperative.load(tmp_path / "it")


def test_the_same_bytes_are_not_copied_over_and_over() -> None:
    numeric: Any = import_module("numpy._core.numeric")
    raw = bytes(10_000)
    assert len(decode(pickle.dumps([np.zeros(2500, "f4") for _ in range(50)], 2), "it")) == 50
    arrays = [Reduced(numeric._frombuffer, raw, np.dtype("f4"), (2500,), "C") for _ in range(50)]
    with pytest.raises(CheckpointError, match="more values than a file of its size can hold"):
        decode(pickle.dumps(arrays, 4), "it")


def tensor_of(dims: list[int], values: bytes) -> bytes:
    described = message("TensorDesc")
    described.data_type = 5
    described.dims.extend(dims)
    part: bytes = described.SerializeToString()
    return struct.pack("<IQIi", 0, 0, 0, len(part)) + part + values


def test_dimensions_of_a_variable_are_counted_first(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(tensor_of([2**62] * 200_000, b""))
    with pytest.raises(CheckpointError, match="has 200000 dimensions"):
        read_one(path)
    path.write_bytes(tensor_of([0, 2**62, 2**62], b""))
    with pytest.raises(CheckpointError, match="a tensor of shape"):
        read_one(path)
    path.write_bytes(tensor_of([0, 1000], b""))
    assert read_one(path).shape == (0, 1000)


def model_of(parameter: str, **attrs: Any) -> bytes:
    """A program that adds a parameter of two numbers to what it is fed."""
    described = message("ProgramDesc")
    block = described.blocks.add(idx=0, parent_idx=-1)
    for one, is_kept in (("x", False), (parameter, True), ("y", False)):
        var = block.vars.add(name=one, persistable=is_kept, is_parameter=is_kept)
        var.type.type = TENSOR
        var.type.lod_tensor.tensor.data_type = 5
        var.type.lod_tensor.tensor.dims.extend([2])
    for type, reads, writes in (("feed", {}, "x"), ("elementwise_add", {"X": "x", "Y": parameter}, "y")):
        op = block.ops.add(type=type)
        for slot, argument in reads.items():
            op.inputs.add(parameter=slot, arguments=[argument])
        op.outputs.add(parameter="Out", arguments=[writes])
    for name, value in attrs.items():
        block.ops[1].attrs.add(name=name, type=2, s=value.encode())
    block.ops.add(type="fetch").inputs.add(parameter="X", arguments=["y"])
    made: bytes = described.SerializeToString()
    return made


@pytest.mark.parametrize("name", ["../secret", "/dev/zero"])
def test_names_of_a_model_stay_in_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "__model__").write_bytes(model_of(name))
    (tmp_path / "secret").write_bytes(tensor_of([2], bytes(8)))
    with pytest.raises(CheckpointError, match="would be read from outside"):
        loading.load_inference_model(folder, static.Executor())


@pytest.mark.parametrize(
    ("name", "value", "is_read"),
    [
        ("data_layout", "NCHW", True),
        ("data_layout", "NHWC", False),
        ("fuse_activation", "", True),
        ("fuse_activation", "relu", False),
    ],
)
def test_what_would_be_another_result_is_refused(name: str, value: str, is_read: bool, tmp_path: Path) -> None:
    (tmp_path / "__model__").write_bytes(model_of("w", **{name: value}))
    (tmp_path / "w").write_bytes(tensor_of([2], bytes(8)))
    if is_read:
        with static.scope_guard(static.Scope()):  # one that has no other w
            assert loading.load_inference_model(tmp_path, static.Executor())[1] == ["x"]
    else:
        with pytest.raises(CheckpointError, match=f"elementwise_add has {name} = {value}, which it does not know"):
            loading.load_inference_model(tmp_path, static.Executor())


@pytest.mark.parametrize("tree", ['{"dict":[1]}', '{"dict":[[[],1]]}', '{"dict":[["a"]]}'])
def test_a_structure_that_is_none(tree: str, tmp_path: Path) -> None:
    text = torch.frombuffer(bytearray(tree.encode()), dtype=torch.uint8)
    write_alone(tmp_path / "it", {STRUCTURE: text})
    with pytest.raises(CheckpointError, match="is damaged: its fleet.structure"):
        imperative.load(tmp_path / "it")
