"""Definitions of operators: what all of them must have, and what is refused of one that does not fit."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet_programs import operators as ops
from fleet_programs.definition import extensions, registry
from fleet_programs.jobs.kernels import KERNELS
from fleet_programs.layers.io import fed
from fleet_programs.program.block import Block
from program_support.definitions import has_kernel, names_slots_that_exist
from program_support.programs import building


def test_there_are_many_and_they_are_sorted() -> None:
    assert ops.known() == sorted(ops.known())
    assert {"mul", "mul_grad", "lookup_table", "sgd", "send", "listen_and_serv"} <= set(ops.known())


def test_the_package_names_every_file_of_operators() -> None:
    files = {file.stem for file in Path(ops.__file__).parent.glob("*/*.py")} - {"__init__"}
    assert files == {
        name for name, value in vars(ops).items() if inspect.ismodule(value) and not hasattr(value, "__path__")
    }


def test_every_operator_is_whole() -> None:
    """What has outputs and is added by layers has an `infer`; fused ones are made by the Executor, after shapes."""
    without = [known.type for known in ops.OWN if known.outputs and known.infer is None]
    fused = {known.type for known in ops.OWN if known.type.startswith("fused_")}
    assert set(without) - fused == {
        "c_allgather",
        "c_allreduce_sum",
        "c_broadcast",
        "recv",
    }  # outputs that exist already
    for known in ops.OWN:
        has_kernel(known)
        names_slots_that_exist(known)


def test_what_is_declared_is_provided() -> None:
    declared = [known for known in ops.OWN if known.make is ops.remote._kernel]
    assert {known.type for known in declared} == set(KERNELS)
    assert all(known.has_effect for known in declared)


def test_operators_of_another_package_are_defined_when_one_is_asked_for() -> None:
    calls = []

    def define() -> None:
        calls.append("defined")

        @registry.register("far", inputs=("X",), infer=registry.same_as("X"))
        def _far(op: Any, lowering: Any) -> Any:
            return lambda x: x

    extensions.provide(define)
    extensions.provide(define)
    try:
        assert registry.definition("relu").type == "relu"
        assert not calls
        assert registry.definition("far").type == "far"
        assert "far" in ops.known()
        assert calls == ["defined"]
        assert "far" not in [known.type for known in ops.OWN]
        with pytest.raises(UsageError, match="no operator 'nigh'; .*; if another package defines it, import that "):
            registry.definition("nigh")
    finally:
        extensions._provided.remove(define)
        registry._definitions.pop("far", None)


def test_a_package_whose_operators_cannot_be_defined_says_so_each_time() -> None:
    def define() -> None:
        raise ImportError("no such library")

    extensions.provide(define)
    try:
        for _ in range(2):
            with pytest.raises(ImportError, match="no such library"):
                registry.definition("nigh")
    finally:
        extensions._provided.remove(define)
        extensions._waiting.remove(define)


def added(block: Block, **changed: Any) -> None:
    op: dict[str, Any] = {"type": "relu", "inputs": {"X": "x"}, "outputs": {"Out": "out"}, "attrs": {}, **changed}
    block.append_op(op["type"], op["inputs"], op["outputs"], op["attrs"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"type": "rulu"}, "there is no operator 'rulu'; fleet_programs.operators.known() lists those there are"),
        ({"inputs": {"X": "x", "Z": "x"}}, "operator relu has no input 'Z'; it has X"),
        ({"inputs": {}}, "operator relu: input X takes one variable, got 0"),
        ({"inputs": {"X": ["x", "x"]}}, "operator relu: input X takes one variable, got 2"),
        ({"inputs": {"X": "nobody"}}, "relu: the program has no variable 'nobody'"),
        ({"outputs": {}}, "operator relu: output Out takes one variable, got 0"),
        ({"outputs": {"Out": "out", "Y": "z"}}, "operator relu has no output 'Y'; it has Out"),
        ({"type": "scale", "attrs": {"size": 2}}, "operator scale has no attribute 'size'; it has scale, bias, "),
        ({"outputs": {"Out": "x"}}, "relu cannot write 'x', which it reads; give it another output"),
        ({"type": "eye"}, "operator eye has no input 'X'; it has none"),
    ],
)
def test_an_operator_that_does_not_fit(changed: dict[str, Any], message: str) -> None:
    with building() as built:
        fed("x", [-1, 3])
        block = built.main.global_block()
        with pytest.raises(UsageError) as raised:
            added(block, **changed)
    assert message in str(raised.value)
    assert "test_registry.py:" in str(raised.value) or changed.get("type") == "rulu"
    assert not block.ops


def test_operators_that_may_write_what_they_read() -> None:
    with building() as built:
        block = built.main.global_block()
        for name in ("w", "g", "rate", "n"):
            block.create_var(name, [1])
        block.append_op("sgd", {"Param": "w", "Grad": "g", "LearningRate": "rate"}, {"ParamOut": "w"})
        block.append_op("increment", {"X": "n"}, {"Out": "n"})
        block.append_op("sum", {"X": ["w", "g"]}, {"Out": "g"})
        with pytest.raises(UsageError, match=r"sgd: ParamOut must be \['w'\], which is changed in place"):
            block.append_op("sgd", {"Param": "w", "Grad": "g", "LearningRate": "rate"}, {"ParamOut": "g"})
    assert [op.in_place for op in block.ops] == [{"w"}, {"n"}, {"g"}]


def test_slots_come_in_the_order_of_the_definition() -> None:
    with building() as built:
        x, w = fed("x", [-1, 3]), fed("w", [3, 2])
        op = built.main.global_block().append_op("mul", {"Y": w, "X": x}, {"Out": "out"})
    assert (list(op.inputs), op.input_names, op.output_names) == (["X", "Y"], ["x", "w"], ["out"])
    assert (op.attr("x_num_col_dims"), op.attrs) == (1, {})


def test_a_gradient_that_cannot_be_made_by_autograd_says_so() -> None:
    """No operator of ours is such a one, so one is defined for a moment."""

    @registry.register("rare", inputs=("X", "Y"), infer=registry.same_as("X"), grad=registry.Grad(needs=("X",)))
    def _rare(op: Any, lowering: Any) -> Any:
        return lambda x, y: x * y

    try:
        with building() as built:
            block = built.main.global_block()
            for name in ("x", "y", "g"):
                fed(name, [2])
            block.append_op("rare_grad", {"X": "x", "Out@GRAD": "g"}, {"X@GRAD": "x@GRAD"})
            with pytest.raises(NotSupportedError, match="operator rare_grad needs a kernel of its own"):
                built.run({"x": [1, 2], "y": [1, 2], "g": [1, 2]}, "x@GRAD")
    finally:
        del registry._definitions["rare"], registry._definitions["rare_grad"]
