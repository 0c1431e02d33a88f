"""Branches and loops in programs: their values and gradients beside those of programs without, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.backward.backward import append_backward
from fleet_programs.executor.emit import Emitter
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.inside import loop
from fleet_programs.layers.io import fed
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.program.verify import verify
from program_support.programs import building

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((4, 3))
W = RANDOM.standard_normal((3, 3))
E = RANDOM.standard_normal((5, 3))


def number(value: int) -> Variable:
    return layers.fill_constant([1], "int64", value)


def quiet(made: Variable) -> None:
    """For functions of branches that only write."""


def weight() -> Variable:
    return layers.create_parameter([3, 3], "float64", attr=ParamAttr("w"))


def step(state: Variable, w: Variable) -> Variable:
    return layers.tanh(layers.matmul(state, w))


def found(build: Callable[[Variable], Any], feed: dict[str, Any] | None = None, **more: Any) -> list[Any]:
    """The loss, and the gradients of `w` and the input; every program is read back from both of its forms first."""
    with building() as built:
        x = fed("x", [-1, 3], "float64", stop_gradient=False)
        loss = layers.reduce_sum(build(x))
        pairs = append_backward(loss, parameter_list=None)
        (of_x,) = static.gradients([loss], [x])
    verify(built.main)
    assert str(Program.parse_from_string(str(built.main))) == str(built.main)
    built.main = Program.from_json(built.main.to_json())
    verify(built.main.clone(for_test=True))
    built.start(**{"w": W, **more})
    wanted = [loss, *(gradient for _, gradient in pairs), *([] if of_x is None else [of_x])]
    return built.run({"x": X, **(feed or {})}, *(one.name for one in wanted))


def same(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other) > 1
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def unrolled(x: Variable, turns: int = 3) -> Variable:
    w = weight()
    for _ in range(turns):
        x = step(x, w)
    return x


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_has_the_gradients_of_the_unrolled_program(turns: int) -> None:
    def looped(x: Variable) -> Any:
        w, n = weight(), number(turns)
        return static.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, step(h, w)), [number(0), x])[1]

    if turns:
        same(found(looped), found(lambda x: unrolled(x, turns)))
    else:
        loss, of_w, of_x = found(looped)
        np.testing.assert_allclose(loss, X.sum())
        np.testing.assert_array_equal(of_w, np.zeros((3, 3)))
        np.testing.assert_array_equal(of_x, np.ones((4, 3)))


def test_what_a_loop_begins_with_need_not_have_a_gradient() -> None:
    """A sum that begins at a constant: its gradient goes from turn to turn all the same."""

    def looped(x: Variable) -> Any:
        w, n = weight(), number(3)
        begin = layers.fill_constant([4, 3], "float64", 0.5)
        return static.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, step(h, w) + x), [number(0), begin])[1]

    def plain(x: Variable) -> Any:
        w, h = weight(), layers.fill_constant([4, 3], "float64", 0.5)
        for _ in range(3):
            h = step(h, w) + x
        return h

    same(found(looped), found(plain))


def test_variables_that_change_places() -> None:
    def looped(x: Variable) -> Any:
        w, n = weight(), number(3)
        body: Any = lambda i, a, b: (i + 1, b, step(a, w))  # noqa: E731
        _, a, b = static.while_loop(lambda i, *_: i < n, body, [number(0), x, layers.scale(x, 2.0)])
        return a + b * 3.0

    def plain(x: Variable) -> Any:
        w = weight()
        a, b = x, layers.scale(x, 2.0)
        for _ in range(3):
            a, b = b, step(a, w)
        return a + b * 3.0

    same(found(looped), found(plain))


def test_arrays_and_a_loop_that_writes_over_what_is_around_it() -> None:
    """As `While` builds it: outer variables and arrays are written in place, and read after the loop."""

    def looped(x: Variable) -> Any:
        w, i, n = weight(), number(0), number(3)
        states = layers.array_write(layers.tanh(x), i)
        total = layers.tanh(layers.scale(x, 0.5))
        more = layers.less_than(i, n)
        with loop(LayerBuilder("while"), more):
            state = step(layers.array_read(states, i), w)
            layers.assign(total * state, output=total)
            layers.increment(i)
            layers.array_write(state, i, states)
            layers.less_than(i, n, cond=more)
        joined, _ = layers.tensor_array_to_tensor(states, axis=0, use_stack=True)
        return layers.reduce_sum(joined, dim=[0]) + total * layers.array_read(states, number(1))

    def plain(x: Variable) -> Any:
        w, states = weight(), [layers.tanh(x)]
        total = layers.tanh(layers.scale(x, 0.5))
        for _ in range(3):
            states.append(step(states[-1], w))
            total = total * states[-1]
        return layers.sums(states) + total * states[1]

    same(found(looped), found(plain))


def test_a_loop_in_a_branch_in_a_loop() -> None:
    def looped(x: Variable) -> Any:
        w, n = weight(), number(4)

        def twice(h: Variable) -> Any:
            two = number(2)
            return static.while_loop(lambda j, _: j < two, lambda j, h: (j + 1, step(h, w)), [number(0), h])[1]

        def body(i: Variable, h: Variable) -> Any:
            return i + 1, static.cond(i % 2 < 1, lambda: twice(h), lambda: layers.scale(h, 0.5))

        return static.while_loop(lambda i, _: i < n, body, [number(0), x])[1]

    def plain(x: Variable) -> Any:
        w = weight()
        for turn in range(4):
            x = step(step(x, w), w) if turn % 2 < 1 else layers.scale(x, 0.5)
        return x

    same(found(looped), found(plain))


@pytest.mark.parametrize("holds", [True, False])
def test_a_branch_has_the_gradients_of_what_ran(holds: bool) -> None:
    def sides(x: Variable, w: Variable) -> Any:
        return (lambda: [step(x, w), x]), (lambda: [layers.scale(x, 3.0), layers.matmul(x, w)])

    def branched(x: Variable) -> Any:
        w = weight()
        one, other = static.cond(fed("p", [1], "bool"), *sides(x, w))
        return one * other

    def plain(x: Variable) -> Any:
        one, other = sides(x, weight())[0 if holds else 1]()
        return one * other

    same(found(branched, {"p": np.array([holds])}), found(plain))


@pytest.mark.parametrize("holds", [True, False])
def test_a_branch_that_writes_what_is_around_it(holds: bool) -> None:
    def branched(x: Variable) -> Any:
        w, h = weight(), layers.tanh(x)
        assert static.cond(fed("p", [1], "bool"), lambda: quiet(layers.assign(step(h, w), output=h))) is None
        return layers.matmul(h, w)

    def plain(x: Variable) -> Any:
        w, h = weight(), layers.tanh(x)
        return layers.matmul(step(h, w) if holds else h, w)

    same(found(branched, {"p": np.array([holds])}), found(plain))


@pytest.mark.parametrize("is_sparse", [True, False])
def test_rows_that_are_looked_up_in_a_loop(is_sparse: bool) -> None:
    """Sparse gradients stay sparse: the optimizer changes the rows of this batch alone."""
    with building() as built:
        ids, n = fed("ids", [3, 2], "int64"), number(3)

        def body(i: Variable, total: Variable) -> Any:
            row = layers.gather(ids, i)
            found = layers.embedding_v2(row, [5, 3], is_sparse=is_sparse, param_attr="table")
            return i + 1, total + layers.reduce_sum(layers.square(found), dim=[1])

        begin = layers.fill_constant([1, 3], "float32", 0.0)
        _, total = static.while_loop(lambda i, _: i < n, body, [number(0), begin])
        optimizer.SGD(0.5).minimize(layers.reduce_sum(total))
    kind = built.main.global_block().var("table@GRAD").kind
    assert kind == ("rows" if is_sparse else "tensor")
    built.start(table=E.astype(np.float32))
    built.run({"ids": np.array([[0, 1], [1, 1], [4, 0]])})
    counts = np.array([2, 3, 0, 0, 1])[:, None]
    np.testing.assert_allclose(built["table"], E * (1 - counts), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("index", "expected"), [(0, 1.0), (3, 4.0), (7, 10.0), (5, 100.0)])
def test_case_and_switch_case(index: int, expected: float) -> None:
    def constant(value: float) -> Callable[[], Variable]:
        return lambda: layers.fill_constant([1], "float32", value)

    with building() as built:
        i = fed("i", [1], "int64")
        chosen = static.switch_case(i, {7: constant(10.0), 0: constant(1.0), 3: constant(4.0)}, constant(100.0))
        without = static.switch_case(i, [constant(1.0), constant(2.0)])
        first = static.case([(i < 1, constant(1.0)), (i < 4, constant(4.0)), (i < 6, constant(100.0))], constant(10.0))
        last = static.case([(i < 1, constant(1.0)), (i < 4, constant(4.0))])
    found = built.run({"i": np.array([index])}, chosen, without, first, last)
    assert [one.item() for one in found] == [expected, min(2.0, index + 1.0), expected, min(4.0, expected)]


def test_a_body_is_compiled_once_and_its_faults_name_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    compiled = Emitter.body

    def counted(self: Emitter, ops: Any) -> Any:
        made.append(ops)
        return compiled(self, ops)

    monkeypatch.setattr(Emitter, "body", counted)
    with building() as built:
        x, n = fed("x", [-1, 3]), fed("n", [1], "int64")

        def body(i: Variable, h: Variable) -> Any:
            return i + 1, layers.gather(h, i)

        _, out = static.while_loop(lambda i, _: i < n, body, [number(0), x])
    for turns in (0, 1, 1):
        built.run({"x": X.astype(np.float32), "n": np.array([turns])}, out)
    assert len(made) == 1
    with pytest.raises(UsageError, match=r"test_flow.py:\d+: gather: "):
        built.run({"x": X.astype(np.float32), "n": np.array([9])}, out)


def test_evaluation_and_inference_keep_the_blocks_they_need(tmp_path: Any) -> None:
    with building() as built:
        x, n = fed("x", [-1, 3]), number(2)

        def body(i: Variable, h: Variable) -> Any:
            return i + 1, layers.dropout(layers.fc(h, 3, param_attr="w", bias_attr=False), 0.5)

        _, out = static.while_loop(lambda i, _: i < n, body, [number(0), x])
        other = static.cond(layers.mean(x) > 0.0, lambda: x * 2.0, lambda: x)
        optimizer.SGD(0.1).minimize(layers.mean(out + other))
    built.start(w=W.astype(np.float32))
    assert [block.parent for block in built.main.blocks] == [-1, 0, 0, 0, 1]
    testing = built.main.clone(for_test=True)
    assert [block.parent for block in testing.blocks] == [-1, 0, 0, 0]
    assert not any("scopes" in name for name in testing.global_block().vars)
    x32 = X.astype(np.float32)
    exe = static.Executor()
    expected = x32 @ W.astype(np.float32) * 0.5 @ W.astype(np.float32) * 0.5
    np.testing.assert_allclose(exe.run(testing, {"x": x32}, [out], scope=built.scope)[0], expected, rtol=1e-5)
    pruned = built.main.prune([other])
    assert [[op.type for op in block.ops] for block in pruned.blocks[1:]] == [["scale"], []]
    with static.scope_guard(built.scope):
        static.io.save_inference_model(str(tmp_path), ["x"], [out], exe, built.main)
    with static.scope_guard(static.Scope()):
        program, feeds, targets = static.io.load_inference_model(str(tmp_path), exe)
        assert (feeds, program.num_blocks) == (["x"], 2)
        np.testing.assert_allclose(exe.run(program, {"x": x32}, targets)[0], expected, rtol=1e-5)


def test_memory_is_let_go_around_blocks() -> None:
    def looped(x: Variable) -> Any:
        w, n = weight(), number(3)
        return static.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, step(h, w)), [number(0), x])[1]

    results = []
    for is_optimized in (False, True):
        with building() as built:
            loss = layers.reduce_sum(looped(fed("x", [-1, 3], "float64")))
            optimizer.SGD(0.1).minimize(loss)
        if is_optimized:
            static.memory_optimize(built.main)
        built.start(w=W)
        built.run({"x": X}, loss)
        results.append(built["w"])
    np.testing.assert_array_equal(*results)


def test_an_array_is_fetched_as_a_list() -> None:
    """Its tensors may have different shapes."""
    with building() as built:
        x, n = fed("x", [-1, 3]), number(2)
        begin = [number(0), x, layers.create_array("float32")]

        def body(i: Variable, rows: Variable, array: Variable) -> Any:
            return i + 1, layers.concat([rows, x]), layers.array_write(rows, i, array)

        _, grown, array = static.while_loop(lambda i, *_: i < n, body, begin)
        other = layers.array_write(x, number(1))
    feed = {"x": X.astype(np.float32)}
    found = static.Executor().run(built.main, feed, [array, grown, other], scope=built.scope)
    assert [one.shape for one in found[0]] == [(4, 3), (8, 3)]
    assert (found[1].shape, found[2][0]) == ((12, 3), None)
