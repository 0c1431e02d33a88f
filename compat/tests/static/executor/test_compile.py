"""Compiled programs: one function for each program, feeds and fetches; what it says, leaves out and refuses."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.executor import steps as module
from fleet_programs.executor.emit import Step
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.options import BuildStrategy
from fleet_programs.executor.parallel import CompiledProgram
from fleet_programs.executor.scope import Scope, scope_guard
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def line() -> tuple[Built, Variable, Variable]:
    with building() as built:
        guess = layers.fc(fed("x", [-1, 3]), 1)
        loss = layers.mean(layers.square_error_cost(guess, fed("y", [-1, 1])))
        optimizer.SGD(0.01).minimize(loss)
    built.start()
    return built, guess, loss


FEED = {"x": X, "y": np.ones((2, 1), np.float32)}


def steps(exe: Executor) -> list[Step]:
    return [ready.step for ready in exe._steps.values()]


def test_a_pruned_run_makes_what_is_fetched_and_changes_nothing() -> None:
    (built, guess, loss), exe = line(), Executor()
    before = built["fc_0.w_0"]
    run = partial(exe.run, built.main, scope=built.scope, use_prune=True)
    (found,) = run({"x": X}, [guess])
    np.testing.assert_allclose(found, X @ before, rtol=1e-6)
    assert (run(FEED, ["fc_0.w_0"])[0] == before).all()
    (slope,) = run(FEED, ["fc_0.w_0@GRAD"])
    assert (built["fc_0.w_0"] == before).all()
    assert run({guess.name: np.zeros((2, 1), np.float32), "y": FEED["y"]}, [loss])[0] == 1
    count = len(steps(exe))
    run({"x": X}, [guess])
    assert len(steps(exe)) == count
    with pytest.raises(UsageError, match="^use_prune=True runs what leads to fetch_list, which is empty: give it, or"):
        run(FEED)
    exe.run(built.main, FEED, [loss], scope=built.scope)
    np.testing.assert_allclose(built["fc_0.w_0"], before - 0.01 * slope, rtol=1e-6)


def test_a_program_is_compiled_once() -> None:
    (built, guess, loss), exe = line(), Executor()
    for _ in range(2):
        exe.run(built.main, FEED, [loss], scope=built.scope)
        exe.run(built.main, dict(FEED), [loss.name], scope=built.scope)
    (first,) = steps(exe)
    exe.run(built.main, FEED, [loss, guess], scope=built.scope)  # other fetches
    exe.run(built.main, dict(reversed(FEED.items())), [loss], scope=built.scope)  # other order
    other = Scope()
    exe.run(built.startup, scope=other)
    exe.run(built.main, FEED, [loss], scope=other)
    assert len(steps(exe)) == 5
    assert steps(exe)[0] is first
    built.main.changed()
    exe.run(built.main, FEED, [loss], scope=built.scope)
    assert first not in steps(exe)
    exe.run(built.main, FEED, [loss], scope=built.scope)
    assert len(steps(exe)) == 2  # what was compiled of the program before is gone; the startup program is not


def test_one_program_may_be_compiled_in_two_ways() -> None:
    (built, _, loss), exe = line(), Executor()
    compiled = CompiledProgram(built.main, BuildStrategy(memory_optimize=True))
    with scope_guard(built.scope):
        assert ["del " in exe.source(one, FEED, [loss]) for one in (built.main, compiled, built.main)] == [
            False,
            True,
            False,
        ]
        exe.run(compiled, FEED, [loss])
    assert len(steps(exe)) == 2


def test_a_batch_of_another_size_needs_no_other_function() -> None:
    (built, _, loss), exe = line(), Executor()
    for rows in (2, 5, 1):
        exe.run(
            built.main, {"x": np.ones((rows, 3), np.float32), "y": np.ones((rows, 1), np.float32)}, [loss], built.scope
        )
    assert len(steps(exe)) == 1


def test_a_changed_program_is_compiled_again() -> None:
    with building() as built:
        out = layers.scale(fed("x", [-1, 3]), 2.0)
        exe = Executor()
        assert (exe.run(built.main, {"x": X}, [out])[0] == 2 * X).all()
        built.main.global_block().ops[0].attrs["scale"] = 3.0
        assert (exe.run(built.main, {"x": X}, [out])[0] == 2 * X).all()  # nobody said so
        built.main.changed()
        assert (exe.run(built.main, {"x": X}, [out])[0] == 3 * X).all()
        more = layers.scale(out, 2.0)
        assert (exe.run(built.main, {"x": X}, [more])[0] == 6 * X).all()


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 3)
    with building() as built:
        outs = [layers.scale(fed("x", [-1, 3]), float(i)) for i in range(5)]
    exe = Executor()
    for i, out in enumerate([*outs, *outs]):
        assert (exe.run(built.main, {"x": X}, [out])[0] == X * (i % 5)).all()
        assert len(steps(exe)) <= 3
    assert [step.fetches for step in steps(exe)] == [(out.name,) for out in outs[2:]]


def test_programs_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    exe = Executor()
    for factor in range(20):
        with building() as built:
            out = layers.scale(fed("x", [-1, 3]), float(factor))
        assert (exe.run(built.main, {"x": X}, [out])[0] == factor * X).all()
        del built, out


def test_the_function_as_text() -> None:
    built, guess, loss = line()
    source = Executor().source(built.main, FEED, [loss])
    assert source.startswith("def step(S, F):\n    x, y, = F\n")
    assert "fc_0_w_0 = S['fc_0.w_0']\n" in source
    assert source.endswith(f"return ({loss.name.replace('.', '_')}, )\n")
    assert "# square\n" in source
    compile(source, "step", "exec")
    alone = Executor().source(built.main.clone(for_test=True), {"x": X}, [guess])
    assert len(alone.splitlines()) == 6  # def, feed, two parameters, one fused operator, return


def test_what_nobody_needs_is_left_out() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        out = layers.scale(x, 2.0)
        layers.softmax(layers.fc(x, 2))
        counter = layers.create_global_var([1], 0.0, "float32", persistable=True)
        layers.increment(counter)
    built.start()
    exe = Executor()
    assert (exe.run(built.main, {"x": X}, [out], scope=built.scope)[0] == 2 * X).all()
    assert [op.type for op in steps(exe)[0].ops] == ["scale", "increment"]
    exe.run(built.main, {}, [], scope=built.scope)
    assert [op.type for op in steps(exe)[1].ops] == ["increment"]
    assert built[counter.name] == 2


ODD = [
    "class",
    "None",
    "S",
    "F",
    "step",
    "k0",
    "region0",
    "__debug__",
    "1st",
    "a.b",
    "a@b",
    "a_b",
    "a b'\"\\",
    "é",
    "λ",
]


def test_names_that_python_does_not_have() -> None:
    assert keyword.iskeyword(ODD[0])
    with building() as built:
        out = layers.sums([fed(name, [-1, 3]) for name in ODD])
    feed = {name: np.full((1, 3), 10.0**i, np.float32) for i, name in enumerate(ODD[:7])}
    feed |= {name: np.full((1, 3), i, np.float32) for i, name in enumerate(ODD[7:])}
    (total,) = Executor().run(built.main, feed, [out])
    assert total.tolist() == [[1111111.0 + sum(range(len(ODD) - 7))] * 3]


def test_persistable_variables_with_odd_names() -> None:
    with building() as built:
        out = layers.fc(fed("x", [-1, 3]), 2, param_attr="it's", bias_attr="lambda")
        loss = layers.mean(out)
        optimizer.SGD(0.1).minimize(loss)
    built.start()
    before = built["it's"]
    built.run({"x": X}, loss)
    assert (built["it's"] != before).all()


def failing(expected: type[Exception], message: str, fetches: Sequence[Any], **feed: Any) -> None:
    built, _, _ = line()
    with pytest.raises(expected) as raised:
        Executor().run(built.main, feed, fetches, scope=built.scope)
    assert str(raised.value) == message


LOSS, Y = "mean_0.tmp_0", FEED["y"]


def test_a_feed_is_missing() -> None:
    failing(
        UsageError,
        "feed 'y' is missing, which elementwise_sub reads; give feed={'y': ...} of shape [-1, 1]",
        [LOSS],
        x=X,
    )


def test_a_feed_that_is_fetched_is_missing() -> None:
    built, _, _ = line()
    with pytest.raises(UsageError, match="^feed 'x' is missing, which is fetched; give feed="):
        Executor().run(built.main.prune(["x"]), {}, ["x"])


def test_a_feed_that_nobody_knows() -> None:
    failing(UsageError, "the program has no variable 'z'; print(program) shows those it has", [LOSS], x=X, y=Y, z=X)


def test_a_feed_of_another_shape() -> None:
    failing(UsageError, "feed 'x' must have shape [-1, 3], got [2, 2]; reshape it", [LOSS], x=X[:, :2], y=Y)
    failing(UsageError, "feed 'x' must have shape [-1, 3], got [3]; reshape it", [LOSS], x=X[0], y=Y)


def test_a_feed_of_another_dtype() -> None:
    failing(
        UsageError,
        "feed 'x' must be float32, got float64; convert it with .astype('float32')",
        [LOSS],
        x=X.astype(np.float64),
        y=Y,
    )


def test_a_feed_that_has_a_value_already() -> None:
    failing(
        UsageError,
        "feed 'fc_0.w_0' is what sgd of this program writes; leave it out, or prune() the program",
        [LOSS],
        x=X,
        y=Y,
        **{"fc_0.w_0": np.ones((3, 1), np.float32)},
    )


def test_a_fetch_that_nobody_knows() -> None:
    failing(
        UsageError, "the program has no variable 'mean_0.tmp'; did you mean 'mean_0.tmp_0'?", ["mean_0.tmp"], x=X, y=Y
    )


def test_a_fetch_that_nothing_computes() -> None:
    with building() as built:
        layers.relu(fed("x", [-1, 3]))
        built.main.global_block().create_var("empty", [1])
    with pytest.raises(
        UsageError, match="^nothing in the program computes 'empty', which is fetched; feed it, or fetch"
    ):
        built.run({"x": X}, "empty")


def test_a_parameter_without_a_value() -> None:
    built, _, _ = line()
    with pytest.raises(NotReadyError) as raised:
        Executor().run(built.main, FEED, [LOSS], scope=Scope())
    assert str(raised.value) == (
        "variable 'fc_0.w_0' has no value; run the startup program first: exe.run(default_startup_program())"
    )


FED = "feed must be a dictionary of names and values"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("program", FEED, [LOSS]), "program must be a Program or a CompiledProgram, got str"),
        (
            (None, [3], [LOSS]),
            "feed must be a dictionary of names and values, or a list with one for each place, got [3]",
        ),
        (
            (None, [], [LOSS]),
            "feed must be a dictionary of names and values, or a list with one for each place, got []",
        ),
        ((None, 3, [LOSS]), f"{FED}, got int"),
        ((None, FEED, 3), "fetch_list must hold variables or their names, got 3"),
        ((None, FEED, [3]), "fetch_list must hold variables or their names, got [3]"),
        ((None, FEED, [["a"]]), "fetch_list must hold variables or their names, got [['a']]"),
    ],
)
def test_arguments_of_another_type(given: tuple[Any, Any, Any], message: str) -> None:
    built, _, _ = line()
    with pytest.raises(UsageTypeError) as raised:
        Executor().run(given[0] or built.main, given[1], given[2], scope=built.scope)
    assert str(raised.value) == message


def test_an_error_of_a_kernel_is_not_taken_for_a_missing_value() -> None:
    with building() as built:
        out = layers.embedding(fed("ids", [-1, 1], "int64"), [4, 2])
    built.start()
    with pytest.raises(
        UsageError,
        match=r"^test_compile.py:\d+: lookup_table: id 9 is not in table 'embedding_0.w_0', whose ids are 0 to 3",
    ):
        built.run({"ids": [[9]]}, out)


def test_without_program_and_scope_the_defaults_are_taken() -> None:
    with building() as built, scope_guard(built.scope):
        out = layers.fc(fed("x", [-1, 3]), 1)
        exe = Executor()
        assert exe.run(built.startup) == []
        assert exe.run(feed={"x": X}, fetch_list=out)[0].shape == (2, 1)
        assert exe.run(feed={"x": X}, fetch_list=out.name)[0].shape == (2, 1)
        assert exe.run(feed={"x": X}) == []
        assert exe.run(Program()) == []
