"""Branches and loops that are refused: each with one line that says what is wrong, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers
from fleet_programs.backward.backward import append_backward
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.inside import loop
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

X = np.random.default_rng(5).standard_normal((4, 3))


def number(value: int) -> Variable:
    return layers.fill_constant([1], "int64", value)


def quiet(made: Variable) -> None:
    """For functions of branches that only write."""


def wrong_loop(built: Built, **how: Any) -> None:
    del built
    n = number(3)
    given: dict[str, Any] = {
        "cond": lambda i, _: i < n,
        "body": lambda i, h: (i + 1, h),
        "loop_vars": [number(0), layers.fill_constant([2, 3], "float32", 0.0)],
        **how,
    }
    static.while_loop(given["cond"], given["body"], given["loop_vars"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"body": lambda i, h: (i + 1, layers.cast(h, "int64"))}, "float32 of shape .2, 3. where the block begins"),
        ({"body": lambda i, h: (i + 1, layers.reshape(h, [6]))}, "cannot become float32 of shape .6. inside"),
        ({"body": lambda i, _: i + 1}, r"body returns 1 as \[\*\] and loop_vars are 2 as \[\*, \*\]"),
        ({"body": lambda i, _: (i, 3.0)}, "what body returns must be a Variable, got float"),
        ({"cond": lambda _, h: h}, "must be one bool, got float32 of shape .2, 3."),
        ({"cond": lambda *_: True}, "must be a Variable, got bool"),
        ({"loop_vars": []}, "loop_vars must be a list of variables"),
        ({"cond": 3}, "cond must be a function, got int"),
    ],
)
def test_loops_that_are_refused(how: dict[str, Any], message: str) -> None:
    with building() as built, pytest.raises((UsageError, UsageTypeError), match=message):
        wrong_loop(built, **how)
    assert built.main.num_blocks == 1
    assert built.main.current_block() is built.main.global_block()


def test_other_mistakes_are_one_line_each() -> None:
    with building() as built:
        x, p = fed("x", [-1, 3]), fed("p", [1], "bool")
        inner = []

        def double() -> Variable:
            inner.append(x * 2.0)
            return inner[0]

        out = static.cond(p, double, lambda: x)
        with pytest.raises(
            UsageError, match=r"test_flow_mistakes.py:\d+: mean: variable 'scale_0.tmp_0' is of block 1 and has"
        ):
            layers.mean(inner[0])
        with pytest.raises(UsageError, match="variable 'scale_0.tmp_0' is of block 1 and has no value outside"):
            built.run({"x": X.astype(np.float32), "p": np.array([True])}, "scale_0.tmp_0")
        with pytest.raises(UsageError, match="true_fn returns tensor 'x', float32 .* and false_fn tensor 'p', bool"):
            static.cond(p, lambda: x, lambda: p)
        with pytest.raises(UsageError, match="true_fn returns 1 as . and false_fn nothing"):
            static.cond(p, lambda: x)
        with pytest.raises(UsageTypeError, match="true_fn must return variables, got int"):
            static.cond(p, lambda: 1, lambda: x)
        with pytest.raises(UsageError, match="loss: '.*' is of block .*, inside a branch or a loop"):
            static.cond(p, lambda: append_backward(layers.mean(layers.fc(x, 1))), lambda: None)
        with pytest.raises(UsageError, match="nothing in the loop writes its condition .*, so it would never end"):
            with loop(LayerBuilder("while"), layers.less_than(number(0), number(1))):
                layers.scale(x, 1.0)
        array = layers.create_array()
        with pytest.raises(UsageError, match="is an array of tensors; take one with array_read"):
            layers.scale(array, 1.0)
        empty = layers.array_read(array, number(0))
        unset = layers.create_tensor("float32")
        static.cond(p, lambda: quiet(layers.assign(x, output=unset)))
        later = layers.scale(unset, 1.0)
        with pytest.raises(UsageTypeError, match="cannot branch on it; .* static.cond"):
            bool(p)
    feed = {"x": X.astype(np.float32), "p": np.array([False])}
    with pytest.raises(
        UsageError, match=r"test_flow_mistakes.py:\d+: read_from_array: array 'array_0.tmp_0' of 0 has nothing"
    ):
        built.run(feed, empty)
    with pytest.raises(UsageError, match="scale: a variable that it reads has no value, for no branch"):
        built.run(feed, later)
    with pytest.raises(UsageError, match="'create_tensor_0' has no value, for no branch that was taken wrote it"):
        built.run(feed, unset)
    np.testing.assert_array_equal(built.run(feed, out)[0], feed["x"])


def test_forms_whose_blocks_do_not_fit() -> None:
    with building() as built:
        n = number(3)
        static.while_loop(lambda i: i < n, lambda i: i + 1, [number(0)])
    text = str(built.main)
    line = next(line for line in text.splitlines() if "= while(" in line)
    for change, message in (
        (("sub_block=1", "sub_block=7"), "while: block 7 must be one after block 0"),
        (("sub_block=1", "sub_block=0"), "while: block 0 must be one after block 0"),
        (("fill_constant_0.tmp_0", "fill_constant_1.tmp_0"), "block 1 reads 'fill_constant_0.tmp_0' from around it"),
        (("Out=[while_loop_0.tmp_0, while_loop_0.tmp_1]", "Out=while_loop_0.tmp_1"), "writes 'while_loop_0.tmp_0'"),
    ):
        assert change[0] in line
        with pytest.raises(UsageError, match=message):
            Program.parse_from_string(text.replace(line, line.replace(*change)))
    with pytest.raises(UsageError, match="block 1 has no variable 'nowhere', which while asks it for"):
        Program.parse_from_string(text.replace(line, f'{line} saved=["nowhere"]'))
    twice = text.replace(line, f"{line}\n{line}")
    with pytest.raises(UsageError, match="block 1 is named by another operator as well"):
        Program.parse_from_string(twice)


def test_a_cuda_graph_of_a_loop_is_refused() -> None:
    with building() as built:
        n = number(3)
        (i,) = static.while_loop(lambda i: i < n, lambda i: i + 1, [number(0)])
    build = static.BuildStrategy()
    build.cuda_graph = True
    with pytest.raises(UsageError, match=r"test_flow_mistakes.py:\d+: while: what runs depends on values"):
        static.Executor().run(static.CompiledProgram(built.main, build), fetch_list=[i], scope=built.scope)
