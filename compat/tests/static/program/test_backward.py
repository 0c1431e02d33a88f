"""Gradients as operators: their names, what they leave out, and their values beside autograd's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.backward.backward import append_backward, gradients
from fleet_programs.definition.operator import Operator
from fleet_programs.layers.io import fed
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def backward_ops(program: Program) -> list[Operator]:
    return [op for op in program.global_block().ops if op.role == "backward"]


def input_of(name: str = "x", *shape: int) -> Variable:
    return fed(name, shape or [-1, 3], "float64", stop_gradient=False)


@pytest.mark.parametrize("uses", [1, 2, 3])
def test_parts_of_a_gradient_are_added(uses: int) -> None:
    with building() as built:
        x = input_of()
        total = layers.sums([layers.scale(x, float(i + 1)) for i in range(uses)])
        (found,) = gradients(total, x)
    assert found is not None
    assert found.name == "x@GRAD"
    sums = [op for op in backward_ops(built.main) if op.type == "sum"]
    parts = [f"x@GRAD@RENAME@{i}" for i in range(uses)]
    assert [(op.input("X"), op.output("Out")) for op in sums] == ([(parts, ["x@GRAD"])] if uses > 1 else [])
    written = [name for op in built.main.global_block().ops for name in op.output_names]
    assert len(set(written)) == len(written)
    np.testing.assert_allclose(built.run({"x": X}, found)[0], np.full_like(X, sum(range(1, uses + 1))))


def test_a_variable_given_twice_to_one_operator() -> None:
    with building() as built:
        x = input_of()
        (found,) = gradients(layers.elementwise_mul(x, x), x)
    np.testing.assert_allclose(built.run({"x": X}, found)[0], 2 * X)


def with_two_layers(**attr: Any) -> tuple[Built, Variable]:
    with building() as built:
        hidden = layers.fc(fed("x", [-1, 3]), 2, act="tanh", param_attr=ParamAttr(**attr))
        loss = layers.mean(layers.fc(hidden, 1, bias_attr=False))
    return built, loss


def names_of(pairs: Any) -> list[tuple[str, str]]:
    return [(parameter.name, gradient.name) for parameter, gradient in pairs]


ALL = [("fc_0.w_0", "fc_0.w_0@GRAD"), ("fc_0.b_0", "fc_0.b_0@GRAD"), ("fc_1.w_0", "fc_1.w_0@GRAD")]


def test_every_trainable_parameter_has_its_gradient() -> None:
    built, loss = with_two_layers()
    assert names_of(append_backward(loss)) == ALL
    block = built.main.global_block()
    assert all(block.var(gradient).shape == block.var(own).shape for own, gradient in ALL)
    assert {op.role for op in block.ops[:5]} == {"forward"}
    assert {op.role for op in block.ops[5:]} == {"backward"}


def test_a_parameter_that_is_not_trained() -> None:
    built, loss = with_two_layers(trainable=False)
    assert names_of(append_backward(loss)) == ALL[1:]
    assert not built.main.global_block().has_var("fc_0.w_0@GRAD")


@pytest.mark.parametrize("given", [["fc_1.w_0"], None])
def test_only_some_parameters(given: list[str] | None) -> None:
    built, loss = with_two_layers()
    some: Any = given or [built.main.all_parameters()[2]]
    assert names_of(append_backward(loss, parameter_list=some)) == ALL[2:]


def test_a_variable_that_no_gradient_goes_through() -> None:
    built, loss = with_two_layers()
    assert names_of(append_backward(loss, no_grad_set={"fc_0.tmp_2", "fc_0.w_0"})) == ALL[2:]
    assert not any(name.startswith("fc_0") and "@GRAD" in name for name in built.main.global_block().vars)


def test_stop_gradient_stops_it() -> None:
    with building() as built:
        x = input_of()
        stopped = layers.scale(x, 2.0)
        stopped.stop_gradient = True
        (found,) = gradients(layers.elementwise_mul(stopped, x), x)
    np.testing.assert_allclose(built.run({"x": X}, found)[0], 2 * X)


def test_callbacks_see_every_operator_that_is_added() -> None:
    built, loss = with_two_layers()
    seen: list[tuple[str, dict[str, Any]]] = []
    append_backward(loss, callbacks=[lambda block, context: seen.append((block.ops[-1].type, context))])
    assert [type for type, _ in seen] == [op.type for op in backward_ops(built.main)]
    assert all(context == {} for _, context in seen)


def test_target_gradients_weigh_the_targets() -> None:
    with building() as built:
        x = input_of()
        targets = [layers.square(x), layers.scale(x, 3.0)]
        weights = fed("weights", [-1, 3], "float64")
        (found,) = gradients(targets, x, [weights, None])
    weight = X + 10
    np.testing.assert_allclose(built.run({"x": X, "weights": weight}, found)[0], 2 * X * weight + 3)


def test_gradients_of_what_does_not_depend() -> None:
    with building() as built:
        x, other = input_of(), input_of("other")
        y = layers.square(x)
        found = gradients([y], [other, x, y])
    assert found[0] is None
    assert [one.name for one in found[1:] if one is not None] == ["x@GRAD", f"{y.name}@GRAD"]
    np.testing.assert_allclose(built.run({"x": X}, found[2])[0], np.ones_like(X))


def test_two_losses_of_one_program_do_not_mix() -> None:
    with building() as built:
        out = layers.fc(fed("x", [-1, 3]), 1, bias_attr=False)
        first, second = layers.mean(out), layers.mean(layers.scale(out, 3.0))
        found = [names_of(append_backward(loss)) for loss in (first, second)]
    assert found == [[("fc_0.w_0", "fc_0.w_0@GRAD")], [("fc_0.w_0", "fc_0.w_0@GRAD@1")]]
    built.start()
    one, three = built.run({"x": X.astype(np.float32)}, "fc_0.w_0@GRAD", "fc_0.w_0@GRAD@1")
    np.testing.assert_allclose(three, 3 * one, rtol=1e-6)


def test_outputs_that_nobody_uses_have_gradients_of_zero() -> None:
    with building() as built:
        x = input_of("x", -1, 3)
        left, _, right = layers.split(x, 3, dim=1)
        (found,) = gradients(layers.elementwise_add(layers.square(left), right), x)
    assert "fill_zeros_like" in [op.type for op in backward_ops(built.main)]
    np.testing.assert_allclose(built.run({"x": X}, found)[0], np.stack([2 * X[:, 0], 0 * X[:, 1], X[:, 0] ** 0], 1))


def test_a_table_with_sparse_and_dense_uses() -> None:
    ids, weight = np.array([[1], [3], [1]]), np.arange(10.0).reshape(5, 2)
    with building() as built:
        rows = layers.embedding(fed("ids", [-1, 1], "int64"), [5, 2], is_sparse=True, param_attr="w", dtype="float64")
        table = built.main.global_block().var("w")
        loss = layers.elementwise_add(layers.mean(layers.square(rows)), layers.mean(layers.square(table)))
        ((_, found),) = append_backward(loss)
    assert found.kind == "tensor"
    kinds = [built.main.global_block().var(f"w@GRAD@RENAME@{i}").kind for i in range(2)]
    assert sorted(kinds) == ["rows", "tensor"]
    built.start(w=weight)
    leaf = torch.from_numpy(weight.copy()).requires_grad_()
    (leaf[torch.from_numpy(ids[:, 0])].square().mean() + leaf.square().mean()).backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(built.run({"ids": ids}, found)[0], leaf.grad.numpy(), rtol=1e-12)


def test_mistakes() -> None:
    built, loss = with_two_layers()
    with pytest.raises(UsageTypeError, match="^loss must be a Variable, got float$"):
        append_backward(1.0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^loss 'x' must have one element, got shape \[-1, 3\]; take layers.mean"):
        append_backward(built.main.global_block().var("x"))
    with pytest.raises(UsageTypeError, match="^parameter_list must hold parameters, got 'x'$"):
        append_backward(loss, parameter_list=["x"])
    with pytest.raises(UsageError, match="the program has no variable 'fc_9.w_0'; did you mean"):
        append_backward(loss, parameter_list=["fc_9.w_0"])
    with pytest.raises(UsageError, match="^target_gradients must be as many as targets, got 2 for 1$"):
        gradients(loss, loss, [None, None])
    assert not backward_ops(built.main)
    optimizer.SGD(0.1).minimize(loss, built.startup)
    with pytest.raises(UsageError, match=r"^an optimizer minimizes 'mean_0.tmp_0' already; call minimize\(\) of one"):
        append_backward(loss)


def test_a_loss_whose_gradients_were_asked_for_can_be_minimized() -> None:
    built, loss = with_two_layers()
    (slope,) = gradients(loss, built.main.global_block().var("x"))
    with program_guard(built.main, built.startup):
        _, pairs = optimizer.SGD(0.1).minimize(loss)
    assert slope is not None
    assert {gradient.name for _, gradient in pairs} == {f"{one.name}@GRAD@1" for one in built.main.all_parameters()}


UNARY: dict[str, tuple[Any, Any]] = {
    "tanh": (layers.tanh, torch.tanh),
    "sigmoid": (layers.sigmoid, torch.sigmoid),
    "square": (layers.square, torch.square),
    "scale": (lambda v: layers.scale(v, -0.5, 0.1), lambda v: v * -0.5 + 0.1),
    "softmax": (layers.softmax, lambda v: v.softmax(-1)),
    "turn": (lambda v: layers.reshape(layers.transpose(v, [1, 0]), [3, 3]), lambda v: v.t()),
}
BINARY: dict[str, tuple[Any, Any]] = {
    "add": (layers.elementwise_add, torch.add),
    "mul": (layers.elementwise_mul, torch.mul),
    "matmul": (layers.matmul, torch.matmul),
    "concat": (
        lambda a, b: layers.slice(layers.concat([a, b], axis=1), [1], [2], [5]),
        lambda a, b: torch.cat([a, b], 1)[:, 2:5],
    ),
}
STEPS = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8
)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_a_random_graph_equals_autograd(steps: list[tuple[str, int, int]]) -> None:
    rng = np.random.default_rng(len(steps))
    values = {name: rng.normal(size=(3, 3)) for name in ("x", "w")}
    leaves = [torch.from_numpy(value.copy()).requires_grad_() for value in values.values()]
    with building() as built:
        ours: list[Variable] = [input_of(name, 3, 3) for name in values]
        theirs: list[torch.Tensor] = list(leaves)
        for name, i, j in steps:
            build, function = {**UNARY, **BINARY}[name]
            places = [i % len(ours)] if name in UNARY else [i % len(ours), j % len(ours)]
            ours.append(build(*[ours[place] for place in places]))
            theirs.append(function(*[theirs[place] for place in places]))
        found = gradients(layers.reduce_sum(ours[-1]), ours[:2])
    expected: Any = torch.autograd.grad(theirs[-1].sum(), leaves, allow_unused=True)
    wanted = [one for one in found if one is not None]
    got = dict(zip([one.name for one in wanted], built.run(values, *wanted), strict=True))
    for one, right in zip(found, expected, strict=True):
        assert (one is None) == (right is None)
        if one is not None:
            np.testing.assert_allclose(got[one.name], right.numpy(), rtol=1e-8, atol=1e-10)
