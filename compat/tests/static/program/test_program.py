"""Programs and blocks: copies, evaluation, pruning, guards, names, and where errors point."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.executor.executor import Executor
from fleet_programs.expressions import names
from fleet_programs.layers.io import fed
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant
from fleet_programs.parameters.regularizer import L2Decay
from fleet_programs.program.program import Program, default_main_program, default_startup_program, program_guard
from fleet_programs.program.variable import Parameter, Variable
from program_support.programs import Built, building

X = np.arange(6, dtype=np.float32).reshape(2, 3)
FEED = {"x": X, "y": np.ones((2, 1), np.float32)}


def trained() -> tuple[Built, Variable, Variable]:
    """A program with what evaluation does differently; its prediction and its loss."""
    with building() as built:
        hidden = layers.batch_norm(layers.fc(fed("x", [-1, 3]), 4))
        guess = layers.fc(layers.dropout(hidden, 0.9), 1)
        loss = layers.mean(layers.square_error_cost(guess, fed("y", [-1, 1])))
        optimizer.Momentum(0.1, 0.9).minimize(loss)
    built.main.random_seed = 7
    built.main.notes.update({"servers": {"a": [1]}, "memory_optimize": {"keep": []}, "collective": {"b": 2}})
    return built, guess, loss


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_a_clone_says_the_same_and_shares_nothing() -> None:
    built, _, _ = trained()
    text = str(built.main)
    twin = built.main.clone()
    assert str(twin) == text
    assert (twin.random_seed, twin.notes) == (7, built.main.notes)
    assert twin.serial != built.main.serial
    assert all(var.block is twin.global_block() for var in twin.list_vars())
    twin.global_block().ops[0].attrs["x_num_col_dims"] = 2
    twin.global_block().ops[0].inputs["X"].append("y")
    twin.global_block().var("fc_0.w_0").shape = (9,)
    twin.notes["servers"]["a"].append(2)
    twin.global_block().create_var("new")
    assert str(built.main) == text


def test_a_clone_for_evaluation() -> None:
    built, guess, loss = trained()
    testing = built.main.clone(for_test=True)
    assert {op.role for op in testing.global_block().ops} == {"forward"}
    assert [op.attrs["is_test"] for op in testing.global_block().ops if op.type in ("dropout", "batch_norm")] == [
        True,
        True,
    ]
    assert not any(op.attrs.get("is_test") for op in built.main.global_block().ops)
    assert set(testing.notes) == {"servers", "memory_optimize"}
    assert (built.main.is_trained, testing.is_trained) == (True, False)
    assert not any("@GRAD" in name or "velocity" in name for name in testing.global_block().vars)
    built.start()
    before = {name: tensor.clone() for name, tensor in built.scope.tensors.items()}
    first, second = (Executor().run(testing, FEED, [guess, loss], scope=built.scope) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert all((built.scope.tensors[name] == value).all() for name, value in before.items())


def test_a_clone_for_evaluation_takes_the_feeds_of_training() -> None:
    with building() as built:
        x, weight = fed("x", [-1, 3]), fed("weight", [-1, 1], lod_level=1)
        out = layers.scale(x, 2.0)
    testing = built.main.clone(for_test=True)
    feed = {"x": np.ones((1, 3), np.float32), weight.name: [[1.0]]}
    assert Executor().run(testing, feed, [out], scope=built.scope)[0].tolist() == [[2, 2, 2]]
    assert set(built.main.prune([out]).global_block().vars) == {"x", out.name}


def test_pruning_keeps_what_a_target_needs() -> None:
    built, guess, _ = trained()
    pruned = built.main.prune([guess])
    assert types(pruned) == ["mul", "elementwise_add", "batch_norm", "dropout", "mul", "elementwise_add"]
    assert pruned.global_block().has_var("x")
    assert not pruned.global_block().has_var("y")
    hidden = built.main.global_block().ops[3].output("Out")[0]
    assert types(built.main.prune([guess.name], feeds=[hidden])) == ["mul", "elementwise_add"]
    assert types(built.main.prune([hidden], feeds=[hidden])) == []
    with pytest.raises(UsageError, match="the program has no variable 'nothing'"):
        built.main.prune(["nothing"])


def test_a_pruned_program_is_fed_what_it_lost() -> None:
    with building() as built:
        middle = layers.relu(fed("x", [-1, 3]))
        out = layers.scale(middle, 2.0)
    pruned = built.main.prune([out], feeds=[middle.name])
    (found,) = Executor().run(pruned, {middle.name: X}, [out.name])
    assert (found == 2 * X).all()


def test_become_takes_over_and_stays_the_same_object() -> None:
    built, guess, _ = trained()
    other, version = Program(), built.main.version
    other.random_seed = 3
    with program_guard(other, Program()), names.guard():
        layers.relu(fed("x", [-1, 3]))
    serial = built.main.serial
    built.main.become(other)
    assert (types(built.main), built.main.random_seed, built.main.serial) == (["relu"], 3, serial)
    assert built.main.version > version
    assert all(block.program is built.main for block in built.main.blocks)
    assert str(built.main) == str(other)
    with pytest.raises(UsageError, match="has no variable"):
        built.main.global_block().var(guess.name)


def test_guards_nest_and_undo_themselves_after_an_error() -> None:
    outside, startup = default_main_program(), default_startup_program()
    first, second, third = Program(), Program(), Program()
    with pytest.raises(ZeroDivisionError), program_guard(first, second):
        with program_guard(third):
            assert (default_main_program(), default_startup_program()) == (third, second)
        assert (default_main_program(), default_startup_program()) == (first, second)
        raise ZeroDivisionError
    assert (default_main_program(), default_startup_program()) == (outside, startup)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None,), "main_program must be a Program, got NoneType"),
        ((Program(), "startup"), "startup_program must be a Program, got str"),
    ],
)
def test_a_guard_takes_programs(given: tuple[object, ...], message: str) -> None:
    before = default_main_program(), default_startup_program()
    with pytest.raises(UsageTypeError, match=f"^{message}$"), program_guard(*given):  # type: ignore[arg-type]
        pass
    assert (default_main_program(), default_startup_program()) == before


def test_names_are_counted_anew_under_a_guard() -> None:
    with names.guard():
        assert [names.generate(stem) for stem in ("fc", "fc", "tmp")] == ["fc_0", "fc_1", "tmp_0"]
        with names.guard("b/"):
            assert names.generate("fc") == "b/fc_0"
        assert names.generate("fc") == "fc_2"


def test_two_builds_have_the_same_text() -> None:
    assert str(trained()[0].main) == str(trained()[0].main)


def test_a_name_scope_is_on_operators_alone() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        with names.name_scope("part"):
            x = layers.relu(x)
            with names.name_scope("inner"):
                x = layers.relu(x)
        with names.name_scope("part"):
            layers.relu(x)
        layers.relu(x)
    assert [op.scope for op in built.main.global_block().ops] == ["part/", "part/inner/", "part_1/", ""]
    assert "relu_0.tmp_0" in built.main.global_block().vars


def test_errors_name_the_line_of_the_script() -> None:
    with building():
        x, y = fed("x", [-1, 3]), fed("y", [-1, 4])
        here = inspect.currentframe()
        assert here is not None
        line = here.f_lineno + 2
        with pytest.raises(UsageError) as raised:
            layers.elementwise_add(x, y)
    assert str(raised.value).startswith(f"test_program.py:{line}: elementwise_add: ")
    assert "\n" not in str(raised.value)


def test_operators_remember_the_line_that_made_them() -> None:
    with building() as built:
        here = inspect.currentframe()
        assert here is not None
        layers.fc(fed("x", [-1, 3]), 2)
    assert {op.callsite for op in built.main.global_block().ops} == {f"test_program.py:{here.f_lineno - 1}"}


def test_a_parameter_of_the_same_name_is_shared() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        layers.fc(layers.fc(x, 3, param_attr="w", bias_attr=False), 3, param_attr="w", bias_attr=False)
        first = layers.create_parameter([3, 3], "float32", name="w")
        assert first is built.main.global_block().var("w")
        with pytest.raises(UsageError, match=r"'w' exists with shape \[3, 3\] and dtype float32, and cannot be shared"):
            layers.create_parameter([3, 4], "float32", name="w")
        with pytest.raises(UsageError, match="cannot be shared by a parameter of shape"):
            layers.create_parameter([3], "float32", name="x")
    assert [parameter.name for parameter in built.main.all_parameters()] == ["w"]
    assert len(built.startup.global_block().ops) == 1


def test_a_shared_parameter_is_what_it_was_made_as() -> None:
    first: dict[str, Any] = {"initializer": Constant(1.0), "learning_rate": 2.0, "regularizer": L2Decay(0.1)}
    with building():
        x = fed("x", [-1, 3])
        for attr in (ParamAttr("w", **first), ParamAttr("w", **first), "w", ParamAttr("w", learning_rate=2.0)):
            x = layers.fc(x, 3, param_attr=attr, bias_attr=False)
        others: dict[str, Any] = {"learning_rate": 3.0, "regularizer": L2Decay(0.2), "trainable": False}
        for name, other in others.items():
            with pytest.raises(UsageError, match=rf"fc: 'w' exists with {name}=.*, and {name}=.* is asked for here"):
                layers.fc(x, 3, param_attr=ParamAttr("w", **{name: other}))
        with pytest.raises(UsageError, match="fc: 'w' exists and begins otherwise than with this initializer; give it"):
            layers.fc(x, 3, param_attr=ParamAttr("w", initializer=Constant(2.0)))


def test_a_parameter_needs_known_sizes() -> None:
    with building(), pytest.raises(UsageError, match=r"a parameter needs known sizes, got shape \[-1, 2\]"):
        layers.create_parameter([-1, 2], "float32")


def test_a_variable_has_one_shape_for_each_name() -> None:
    block = Program().global_block()
    block.create_var("a", [2], "float32")
    assert block.create_var("a", [2], "float32").name == "a"
    with pytest.raises(UsageError, match=r"variable .*a.* asked for.*; give one of them another name$"):
        block.create_var("a", [3], "float32")


def test_what_is_not_a_variable_is_refused() -> None:
    with building() as built:
        block = built.main.global_block()
        with pytest.raises(UsageTypeError, match="relu: X must be a Variable of the program, got ndarray"):
            block.append_op("relu", {"X": [X]}, {"Out": "out"})  # type: ignore[list-item]
        with pytest.raises(UsageTypeError, match=r"^test_program.py:\d+: fc: input must be a Variable, got ndarray; "):
            layers.fc(X, 2)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"has no variable 'fc_0.w'; print\(program\)|did you mean"):
            block.var("fc_0.w")
    assert not built.main.global_block().ops


def test_blocks_see_the_variables_around_them() -> None:
    program = Program()
    outer, version = program.global_block().create_var("a", [2]), program.version
    inner = program.create_block()
    assert (inner.var("a"), inner.has_var("b"), program.num_blocks) == (outer, False, 2)
    assert program.version > version
    inner.create_var("b", [1])
    assert not program.global_block().has_var("b")
    assert program.block(1) is inner


def test_every_change_is_a_new_version() -> None:
    with building() as built:
        versions = [built.main.version]
        x = fed("x", [-1, 3])
        versions.append(built.main.version)
        layers.relu(x)
        versions.append(built.main.version)
        built.main.create_block()
        versions.append(built.main.version)
    assert versions == sorted(set(versions))


def test_a_program_shows_itself() -> None:
    built, _, _ = trained()
    assert repr(built.main).startswith("<Program of 1 blocks, ")
    assert repr(built.main).endswith(" operators, 8 parameters>")
    assert all(isinstance(parameter, Parameter) for parameter in built.main.all_parameters())
    with pytest.raises(TypeError, match="an Operator is not iterable"):
        iter(built.main.global_block().ops[0])
