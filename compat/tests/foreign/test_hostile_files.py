"""Files made byte by byte: forms that no test machine could write, damage, and pickles that want to run something."""

from __future__ import annotations

import os
import pickle
import random
import struct
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import CheckpointError
from fleet_paddle import imperative
from fleet_paddle.foreign import pickled
from fleet_paddle.foreign.messages import message
from fleet_paddle.foreign.pickled import decode, read_pickle
from fleet_paddle.foreign.programs import read_program
from fleet_paddle.foreign.tensors import read_all, read_one

DATA = Path(__file__).parent / "data"
FLOAT32 = 5


class Reduced:
    """An object that a pickle makes by calling a function."""

    def __init__(self, function: Any, *given: Any) -> None:
        self.call = function, given

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_a_checkpoint_may_hold(protocol: int) -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3)
    held = {
        "w": array,
        "columns": np.asfortranarray(array),
        "big end": array.astype(">f4"),
        "half": array.astype("float16"),
        "flags": np.array([True, False]),
        "number": np.float64(2.5),
        "named": ("linear_0.w_0", array),
        "scheduler": {"last_epoch": 3, "last_lr": 0.5, "by": None, "on": True, "text": "é"},
        "ordered": OrderedDict(a=1),
        "bytes": b"\x00\xff",
        "list": [1, [2, (3,)]],
    }
    found = decode(pickle.dumps(held, protocol), "it")
    for name in ("w", "columns", "big end", "half", "flags"):
        np.testing.assert_array_equal(found[name], held[name])
        assert found[name].dtype.isnative
    assert found["number"] == 2.5
    assert found["named"][0] == "linear_0.w_0"
    assert {name: found[name] for name in ("scheduler", "ordered", "list")} == {
        "scheduler": held["scheduler"],
        "ordered": {"a": 1},
        "list": [1, [2, (3,)]],
    }


def test_tensors_as_two_versions_reduce_them() -> None:
    array = np.arange(3.0)
    by_name = decode(pickle.dumps(Reduced(tuple, ("w", array)), 4), "it")
    assert by_name[0] == "w"
    np.testing.assert_array_equal(by_name[1], array)
    np.testing.assert_array_equal(decode(pickle.dumps(Reduced(eval, "data", {"data": array}), 2), "it"), array)


def test_large_arrays_in_pieces(tmp_path: Path) -> None:
    array = np.arange(12, dtype="float32").reshape(3, 4)
    told = {"w": {"OriginShape": (3, 4), "slices": ["w@@.0", "w@@.1"]}}
    held = {"w@@.0": array.ravel()[:7], "w@@.1": array.ravel()[7:], "b": np.ones(2), pickled.SLICED: told}
    (tmp_path / "large").write_bytes(pickle.dumps(held, 2))
    found = imperative.load(tmp_path / "large", return_numpy=True)
    assert sorted(found) == ["b", "w"]
    np.testing.assert_array_equal(found["w"], array)
    del held["w@@.1"]
    (tmp_path / "large").write_bytes(pickle.dumps(held, 2))
    with pytest.raises(CheckpointError, match="large is damaged: pieces of a large array do not fit"):
        imperative.load(tmp_path / "large")


MARKED: list[str] = []


def run_me(text: str) -> str:
    MARKED.append(text)
    return text


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("held", "named"),
    [
        (Reduced(os.system, "exit 3"), "posix.system"),
        (Reduced(run_me, "ran"), "test_hostile_files.run_me"),
        (Reduced(eval, "1 + 1"), "builtins.eval of something else than a tensor"),
        (Reduced(eval, "data", {"data": 1, "__builtins__": {}}), "builtins.eval of something else than a tensor"),
        (Reduced(getattr, "", "join"), "builtins.getattr"),
        (Reduced(exec, "raise SystemExit"), "builtins.exec"),
        (np.array(["a", None], dtype=object), "an array of type 'O8'"),
        (np.array(["text"]), "an array of type 'U4'"),
        (np.array(["2020-01-01"], "datetime64[D]"), "an array of type 'M8'"),
        ({(1, 2): 3}, "a key that is a tuple"),
        ({1, 2}, "set"),
    ],
)
def test_nothing_of_a_pickle_is_run(held: Any, named: str, protocol: int) -> None:
    data = pickle.dumps({"w": held}, protocol)
    with pytest.raises(CheckpointError, match="never read here") as told:
        decode(data, "bad.pdparams")
    assert "bad.pdparams holds" in str(told.value)
    assert named.split(".")[-1] in str(told.value)
    assert "\n" not in str(told.value)
    assert MARKED == []


def test_the_readers_own_functions_cannot_be_changed() -> None:
    # numpy.dtype, then BUILD with (None, {"found": 1}): what would set an attribute of whatever stands for it.
    data = b"\x80\x02cnumpy\ndtype\n(N}X\x05\x00\x00\x00foundK\x01stb."
    with pytest.raises(CheckpointError, match="a change of a function"):
        decode(data, "it")
    assert decode(pickle.dumps(np.ones(1), 2), "it").tolist() == [1.0]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc.", "damaged one"),  # bytes, as many as nobody has
        (b"\x80\x02X" + struct.pack("<I", 0xFFFFFFF0) + b"abc.", "damaged one"),
        (b"\x80\x02P1\n.", "damaged one|from elsewhere"),
        (b"\x80\x02Vid\nQ.", "an object from elsewhere, 'id'"),
        (b"\x80\x02" + b"]" * 500 + b"a" * 499 + b".", "more than 100 dicts or lists inside each other"),
        (b"\x80\x02]q\x00h\x00a.", "more than 100 dicts or lists inside each other"),  # a list in itself
        (b"\x80\x02.", "damaged one"),
        (b"", "damaged one"),
        (b"no pickle at all", "damaged one"),
    ],
)
def test_damage_and_nonsense(data: bytes, says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        decode(data, "it")


class Lying:
    """An array that says what it likes about its shape."""

    def __init__(self, shape: tuple[int, ...], raw: bytes) -> None:
        self.state = 1, shape, np.dtype("float32"), False, raw

    def __reduce__(self) -> Any:
        made: Any = np.zeros(1).__reduce__()
        return made[0], made[1], self.state


@pytest.mark.parametrize(
    ("shape", "raw", "says"),
    [
        ((1 << 40, 1 << 20), b"\x00" * 12, "with 12 bytes"),
        ((3,), b"\x00" * 11, r"an array of shape \[3\] and type float32 with 11 bytes"),
        ((-3,), b"\x00" * 12, r"an array of shape \(-3,\)"),
        ((3.0,), b"\x00" * 12, r"an array of shape \(3.0,\)"),
    ],
)
def test_arrays_that_lie(shape: Any, raw: bytes, says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        decode(pickle.dumps(Lying(shape, raw), 2), "it")


def test_every_shorter_file_is_damaged(tmp_path: Path) -> None:
    for name in ("net_p2.pdparams", "net_p4.pdparams"):
        whole = (DATA / name).read_bytes()
        for count in range(len(whole)):
            with pytest.raises(CheckpointError):
                decode(whole[:count], name)
    whole = (DATA / "one_each" / "fc_0.w_0").read_bytes()
    for count in range(len(whole)):
        (tmp_path / "it").write_bytes(whole[:count])
        with pytest.raises(CheckpointError, match="it is damaged, or no file of variables"):
            read_one(tmp_path / "it")


def test_changed_bytes_are_an_error_or_other_values(tmp_path: Path) -> None:
    drawn = random.Random(3)
    path = tmp_path / "it"
    for name in ("net_p2.pdparams", "net_p4.pdparams", "net.pdopt", "infer.pdmodel", "one_each/conv2d_0.w_0"):
        whole = (DATA / name).read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(drawn.randint(1, 4)):
                data[drawn.randrange(len(data))] = drawn.randrange(256)
            path.write_bytes(data)
            read = read_program if name.endswith(".pdmodel") else read_one if "one_each" in name else read_pickle
            with suppress(CheckpointError):
                read(path)


def tensor(values: Any, kind: int = FLOAT32, levels: tuple[tuple[int, ...], ...] = (), version: int = 0) -> bytes:
    """A variable as the format says it."""
    array = np.asarray(values)
    described = message("TensorDesc")
    described.data_type = kind
    described.dims.extend(array.shape)
    text: bytes = described.SerializeToString()
    rows = b"".join(struct.pack("<Q", 8 * len(one)) + struct.pack(f"<{len(one)}Q", *one) for one in levels)
    begin = struct.pack("<IQ", version, len(levels)) + rows
    return begin + struct.pack("<Ii", 0, len(text)) + text + array.tobytes()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (0, "bool"),
        (1, "int16"),
        (2, "int32"),
        (3, "int64"),
        (4, "float16"),
        (5, "float32"),
        (6, "float64"),
        (21, "int8"),
    ],
)
def test_variables_of_every_type(tmp_path: Path, kind: int, dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype)
    (tmp_path / "it").write_bytes(tensor(array, kind, levels=((0, 1, 2),)))
    found = read_one(tmp_path / "it")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)


def test_short_floats_and_several_variables(tmp_path: Path) -> None:
    short = np.array([1.5, -2.0], "float32").view("<u4") >> 16
    (tmp_path / "it").write_bytes(tensor(np.array([9], "int64"), 3) + tensor(short.astype("<u2"), 22))
    found = read_all(tmp_path / "it", ["w", "b"])
    assert found["b"].tolist() == [9]
    assert found["w"].tolist() == [1.5, -2.0]
    for names, says in ((["a", "b", "c"], "and 0 are left"), (["a"], "more follows after 1 variables")):
        with pytest.raises(CheckpointError, match=says):
            read_all(tmp_path / "it", names)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (tensor([1.0], version=7), "a variable has version 7, and 0 is known"),
        (tensor([1.0], kind=17), "type 17 is none of numbers"),
        (struct.pack("<IQ", 0, 1 << 40), "levels of rows"),
        (struct.pack("<IQQ", 0, 1, 1 << 60), "a level should have"),
        (struct.pack("<IQIi", 0, 0, 0, -5), "a description should have -5 bytes"),
        (struct.pack("<IQIi", 0, 0, 0, 2) + b"\xff\xff", "a description is no message"),
        (tensor(np.zeros(4, "float32"))[:-1], "a tensor of shape [4] should have 16 bytes, and 15 are left"),
        (tensor(np.zeros(4, "float32"), kind=6), "should have 32 bytes, and 16 are left"),
    ],
)
def test_variables_that_lie(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "it").write_bytes(data)
    with pytest.raises(CheckpointError, match=says.replace("[", r"\[").replace("]", r"\]")):
        read_one(tmp_path / "it")


def program(*types: str, lod_level: int = 0, attrs: dict[str, int] | None = None) -> Any:
    """A program of operators in a row, from `x` to `y0`, `y1`, ..."""
    made = message("ProgramDesc")
    block = made.blocks.add(idx=0, parent_idx=-1)
    for name in ("x", *(f"y{index}" for index in range(len(types)))):
        var = block.vars.add(name=name)
        var.type.type = 7
        var.type.lod_tensor.tensor.data_type = FLOAT32
        var.type.lod_tensor.tensor.dims.extend([-1, 2])
        var.type.lod_tensor.lod_level = lod_level
    feed = block.ops.add(type="feed")
    feed.outputs.add(parameter="Out", arguments=["x"])
    for index, type in enumerate(types):
        op = block.ops.add(type=type)
        op.inputs.add(parameter="X", arguments=[f"y{index - 1}" if index else "x"])
        op.outputs.add(parameter="Out", arguments=[f"y{index}"])
        for name, value in (attrs or {}).items():
            op.attrs.add(name=name, type=0, i=value)
    fetch = block.ops.add(type="fetch")
    fetch.inputs.add(parameter="X", arguments=[f"y{len(types) - 1}"])
    return made


def test_programs_made_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "__model__"
    path.write_bytes(program("relu", "tanh", attrs={"op_role": 2, "use_mkldnn": 1}).SerializeToString())
    made, feeds, fetches = read_program(path)
    assert ([op.type for op in made.global_block().ops], feeds, fetches) == (["relu", "tanh"], ["x"], ["y1"])
    several = program("relu")
    several.blocks.add(idx=1, parent_idx=0)
    for wrong, says in (
        (program("relu", "fancy_op", "another_op"), "operators that are not known here: another_op, fancy_op; build"),
        (program("relu", lod_level=1), "variable 'x' is ragged"),
        (program("relu", attrs={"strange": 3}), "relu has strange = 3, which it does not know here"),
        (several, "has 2 blocks"),
        (message("ProgramDesc"), "it has no block"),
    ):
        path.write_bytes(wrong.SerializeToString())
        with pytest.raises(CheckpointError, match=says):
            read_program(path)
    path.write_bytes(program("fancy_op").SerializeToString().replace(b"fancy_op", b"fan\xff\xfe_op"))
    with pytest.raises(CheckpointError, match="__model__ is damaged, or no program"):
        read_program(path)
    path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(CheckpointError, match="it is no message of protobuf"):
        read_program(path)
