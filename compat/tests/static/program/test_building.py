"""Mistakes that are found while a program is built: names that clash, shapes that change, values that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fleet_programs
from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers
from fleet_programs.backward.backward import append_backward
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.place import CPUPlace, CUDAPlace
from fleet_programs.executor.scope import Scope, scope_guard
from fleet_programs.expressions import callsite, names
from fleet_programs.io import load_inference_model, save_inference_model
from fleet_programs.layers.io import fed
from fleet_programs.optimizer import SGD
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building


def test_a_name_is_one_variable() -> None:
    with building() as built:
        x = fed("x", [-1, 4])
        layers.fc(x, 3, param_attr="w")
        assert fed("x", [-1, 4]) is x
        block = built.main.global_block()
        weight = block.vars["w"]
        assert block.create_parameter("w", [4, 3]) is weight
        mistakes: list[Callable[[], object]] = [
            lambda: fed("w", [4, 3]),
            lambda: fed("x", [-1, 5]),
            lambda: fed("x", [-1, 4], stop_gradient=False),
            lambda: block.create_var("w", [4, 3], persistable=True),
            lambda: block.create_var("x", [-1, 4], kind="rows"),
        ]
        for again in mistakes:
            with pytest.raises(
                UsageError, match=r"test_building.py:\d+: there is a variable .* give one of them another"
            ):
                again()
        assert block.vars["w"] is weight
        assert block.vars["x"] is x


@pytest.mark.parametrize(("shape", "dtype"), [([2], "float32"), ([3], "int64"), ([3, 1], "float32")])
def test_what_lasts_keeps_its_shape(shape: list[int], dtype: str) -> None:
    with building() as built:
        var = layers.create_global_var([3], 1.0, "float32", persistable=True, name="g")
        layers.fill_constant([3], "float32", 0.0, out=var)
        with pytest.raises(
            UsageError, match=r"fill_constant: 'g' is float32 of shape \[3\] and lasts.*another variable"
        ):
            layers.fill_constant(shape, dtype, 0.0, out=var)
        assert (var.shape, var.dtype) == ((3,), "float32")
        assert built.main.global_block().create_var("late", persistable=True).shape == ()
        layers.fill_constant([2], "int64", 0, out=built.main.global_block().vars["late"])
        assert str(built.main.global_block().vars["late"]) == "var late : int64[2] persistable stop_gradient"


def test_programs_that_share_a_startup_program() -> None:
    startup = Program()
    for width, mistake in ((4, False), (4, False), (6, True)):
        main = Program()
        with program_guard(main, startup), names.guard():
            if not mistake:
                layers.fc(fed("x", [-1, width]), 1)
                continue
            with pytest.raises(
                UsageError, match=r"test_building.py:\d+: fc: the startup program gives 'fc_0.w_0' a value"
            ):
                layers.fc(fed("x", [-1, width]), 1)
            assert not main.all_parameters()
    assert len(startup.global_block().ops) == 2


def test_a_program_that_was_read_can_be_extended(tmp_path: Any) -> None:
    with building() as built, scope_guard(built.scope):
        out = layers.fc(fed("x", [-1, 4]), 4)
        built.start()
        exe = Executor()
        save_inference_model(tmp_path, ["x"], [out], exe, built.main)
    for read in (lambda: Program.parse_from_string(str(built.main)), lambda: load_inference_model(tmp_path, exe)[0]):
        with scope_guard(Scope()):
            program = read()
            with names.guard(), program_guard(program, Program()):
                more = layers.fc(program.global_block().var("fc_0.tmp_1"), 2, name="more")
                more = layers.fc(more, 2)
                SGD(0.1).minimize(layers.mean(layers.fc(more, 2, name="more")))
        found = [one.name for one in program.all_parameters()]
        assert found == [f"{layer}_0" for layer in ("fc_0.w", "fc_0.b", "more.w", "more.b", "fc_1.w", "fc_1.b")] + [
            "more.w_1",
            "more.b_1",
        ]
        assert more.name == "fc_1.tmp_1"


def test_a_seed_is_checked_and_counts() -> None:
    with building() as built:
        layers.fc(fed("x", [-1, 4]), 3, param_attr="w", bias_attr=False)
    exe, found = Executor(), []
    for seed in (1, 2, 1):
        built.startup.random_seed = seed
        exe.run(built.startup, scope=built.scope)
        found.append(built["w"])
    assert not np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    version = built.startup.version
    built.startup.random_seed = 1
    assert built.startup.version == version
    wrong: list[tuple[Any, type[Exception]]] = [(-1, UsageError), ("abc", UsageTypeError), (True, UsageTypeError)]
    for value, kind in wrong:
        with pytest.raises(kind, match="random_seed must be"):
            built.startup.random_seed = value
    with pytest.raises(UsageError, match="line 1: random_seed must be >= 0, got -1"):
        Program.parse_from_string("program random_seed=-1")


def test_a_parameter_is_frozen_by_stop_gradient() -> None:
    with building() as built:
        loss = layers.mean(layers.fc(fed("x", [-1, 4]), 1, param_attr="w", bias_attr="b"))
        built.main.global_block().var("w").stop_gradient = True
        assert [parameter.name for parameter, _ in append_backward(loss, ["w", "b"])] == ["b"]
        assert "w@GRAD" not in built.main.global_block().vars


def _overwritten(x: Variable) -> Variable:
    hidden = layers.fc(x, 2)
    layers.assign(layers.square(hidden), output=hidden)
    return hidden


def _grown(x: Variable) -> Variable:
    hidden = layers.fc(x, 2)
    layers.increment(hidden)
    return hidden


def _counted_after(x: Variable) -> Variable:
    counter = layers.create_global_var([1], 0.0, "float32", persistable=True)
    out = layers.fc(x, 2) * counter
    layers.increment(counter)
    return out


def _read_then_grown(x: Variable) -> Variable:
    hidden = layers.relu(layers.fc(x, 2))
    out = layers.scale(hidden, 2.0)
    layers.increment(hidden)
    return out


def _plainly(of: Callable[[Variable], Variable]) -> Callable[[Variable], Variable]:
    return lambda x: of(layers.fc(x, 2))


@pytest.mark.parametrize(
    ("build", "plain"),
    [
        (_overwritten, _plainly(layers.square)),
        (_grown, _plainly(lambda hidden: hidden + 1.0)),
        (_counted_after, _plainly(lambda hidden: hidden * 0.0)),
        (_read_then_grown, _plainly(lambda hidden: layers.scale(layers.relu(hidden), 2.0))),
    ],
)
def test_gradients_of_what_was_written_over(
    build: Callable[[Variable], Variable], plain: Callable[[Variable], Variable]
) -> None:
    """They are those of a program that gives every value a name of its own: copies are kept where that is needed."""
    found = []
    for one in (build, plain):
        with building() as built:
            loss = layers.mean(one(fed("x", [-1, 4])))
            pairs = append_backward(loss)
        built.start()
        found.append(built.run({"x": np.eye(4, dtype=np.float32)}, loss, *(gradient for _, gradient in pairs)))
    for written_over, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(written_over, expected)


def test_counters_beside_the_gradient_are_fine() -> None:
    with building() as built:
        counter = layers.create_global_var([1], 0.0, "float32", persistable=True, name="steps")
        layers.increment(counter)
        plain = layers.fill_constant([1], "float32", 0.0)
        layers.increment(plain)
        layers.increment(plain)
        hidden = layers.batch_norm(layers.fc(fed("x", [-1, 4]), 2, param_attr="w")) * counter + plain
        for factor in (1.0, 2.0, 3.0):  # updates of one loss do not keep the next from having its own
            SGD(0.1).minimize(layers.mean(hidden * factor))
    built.start()
    before = built["w"]
    built.run({"x": np.eye(4, dtype=np.float32)})
    assert built["steps"].item() == 1
    assert not np.array_equal(built["w"], before)


def test_one_rate_for_every_program_of_an_optimizer() -> None:
    scope, optimizer = Scope(), SGD(0.5)
    with names.guard():
        for _ in range(2):
            built = Built()
            built.scope = scope
            with program_guard(built.main, built.startup):
                optimizer.minimize(layers.mean(layers.fc(fed("x", [-1, 2]), 1)))
            built.start()
    optimizer.set_lr(0.25, scope)
    assert [scope.tensors[name].item() for name in ("learning_rate_0", "learning_rate_1")] == [0.25, 0.25]
    assert optimizer.get_lr(scope) == 0.25
    scope.tensors["learning_rate_1"].fill_(0.125)
    with pytest.raises(UsageError, match="different learning rates, .*'learning_rate_1': 0.125.*fetch one by name"):
        optimizer.get_lr(scope)


def test_lines_of_scripts_that_are_no_files() -> None:
    for label in ("<stdin>", "<string>", "<ipython-input-1>", "fleetless.py"):
        code = compile("found = where()", label, "exec")
        known: dict[str, Any] = {"where": callsite.callsite}
        exec(code, known)
        assert known["found"] == f"{label}:1"
    package, fleet = callsite._PACKAGES
    beside = package[:-1] + "_of_mine.py"
    for label in (beside, "<program 3>", "<frozen importlib._bootstrap>", fleet + "api.py", package + "kind.py"):
        exec(compile("found = where()", label, "exec"), known)
        is_theirs = label == beside
        assert known["found"].startswith("fleet_programs_of_mine.py:1" if is_theirs else "test_building.py:")


def test_places() -> None:
    assert fleet_programs.cpu_places() == [CPUPlace()]
    assert fleet_programs.cpu_places(2) == [CPUPlace(), CPUPlace()]
    assert fleet_programs.cuda_places([0, 2]) == [CUDAPlace(0), CUDAPlace(2)]
    assert fleet_programs.cuda_places(1) == [CUDAPlace(1)]
    assert CUDAPlace(0) in fleet_programs.cuda_places()
    with pytest.raises(UsageError, match="device_count must be a whole number >= 1, got 0"):
        fleet_programs.cpu_places(0)


def test_attributes_have_the_type_of_their_default() -> None:
    with building() as built:
        fed("x", [-1, 4])
        for type, attrs, message in (
            ("softmax", {"axis": "abc"}, "softmax: attribute axis must be a whole number, got 'abc'"),
            ("scale", {"scale": None, "bias": "1"}, "scale: attribute bias must be a number, got '1'"),
            ("reshape", {"shape": [2, 2.0]}, "reshape: attribute shape must hold a whole number each, got 2.0"),
            ("cumsum", {"exclusive": 1}, "cumsum: attribute exclusive must be true or false, got 1"),
        ):
            with pytest.raises(UsageError, match=r"test_building.py:\d+: " + message):
                built.main.global_block().append_op(type, {"X": "x"}, {"Out": "y"}, attrs)
        built.main.global_block().append_op("scale", {"X": "x"}, {"Out": "y"}, {"scale": np.float32(2), "bias": 1})


def test_a_parameter_attribute_is_shared_by_name_only() -> None:
    with building() as built:
        x = fed("x", [-1, 4])
        for _ in range(2):
            layers.fc(x, 4, param_attr=ParamAttr("shared"), bias_attr=False)
            with names.guard():
                layers.fc(x, 4, bias_attr=False)
    assert [one.name for one in built.main.all_parameters()] == ["shared", "fc_1.w_0", "fc_3.w_0"]
