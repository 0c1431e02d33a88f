"""`minimize`: what it adds to programs, training of a small least-squares program, and bad arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs import optimizer as of
from fleet_programs.layers.io import data, fed
from fleet_programs.layers.lookup import embedding
from fleet_programs.layers.loss import square_error_cost
from fleet_programs.layers.nn import fc
from fleet_programs.layers.table import elementwise_mul, mean
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.regularizer import L1Decay, L2Decay
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Parameter, Penalty, Variable
from program_support.programs import building

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 4)).astype(np.float32), RNG.normal(size=(16, 1)).astype(np.float32)


def line(**attrs: Any) -> Variable:
    """The loss of a line through points."""
    out = fc(data("x", [4]), 1, param_attr=ParamAttr(**attrs) if attrs else None)
    return mean(square_error_cost(out, data("y", [1])))


@pytest.mark.parametrize(
    ("make", "like"),
    [
        (of.SGD, torch.optim.SGD),
        (lambda lr: of.Momentum(lr, 0.9), lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9)),
        (of.Adagrad, lambda params, lr: torch.optim.Adagrad(params, lr, eps=1e-6)),
        (of.Adam, torch.optim.Adam),
    ],
    ids=["sgd", "momentum", "adagrad", "adam"],
)
def test_a_line_is_fitted_as_torch_does(
    make: Callable[[float], of.Optimizer], like: Callable[..., torch.optim.Optimizer]
) -> None:
    with building() as built:
        loss = line()
        make(0.1).minimize(loss)
    built.start()
    model = torch.nn.Linear(4, 1)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(built["fc_0.w_0"].T))
        model.bias.zero_()
    reference = like(model.parameters(), lr=0.1)
    for _ in range(5):
        (ours,) = built.run({"x": X, "y": Y}, loss)
        theirs = torch.nn.functional.mse_loss(model(torch.from_numpy(X)), torch.from_numpy(Y))
        reference.zero_grad()
        theirs.backward()
        reference.step()
        np.testing.assert_allclose(ours, [theirs.item()], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(built["fc_0.w_0"], model.weight.detach().T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(built["fc_0.b_0"], model.bias.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_table_learns_the_same_with_sparse_and_dense_gradients(is_sparse: bool) -> None:
    with building() as built:
        rows = embedding(data("ids", [1], dtype="int64"), [5, 4], is_sparse=is_sparse, param_attr="table")
        loss = mean(elementwise_mul(rows, data("x", [4])))
        _, pairs = of.SGD(0.5).minimize(loss)
    assert pairs[0][1].kind == ("rows" if is_sparse else "tensor")
    start = np.arange(20, dtype=np.float32).reshape(5, 4)
    built.start(table=start)
    built.run({"ids": np.array([[1], [3], [1]]), "x": X[:3]})
    start[1] -= 0.5 / 12 * (X[0] + X[2])
    start[3] -= 0.5 / 12 * X[1]
    np.testing.assert_allclose(built["table"], start, rtol=1e-6)


def test_what_minimize_adds() -> None:
    with building() as built:
        loss = line(name="w", learning_rate=0.1, regularizer=L1Decay(0.5))
        ops, pairs = of.Adam(0.2, regularization=L2Decay(0.01), name="mine").minimize(loss)
    assert [op.type for op in ops] == ["scale", "adam", "adam"]
    assert {op.role for op in ops} == {"optimize"}
    assert ops == built.main.global_block().ops[-3:]
    assert [(parameter.name, gradient.name) for parameter, gradient in pairs] == [
        ("w", "w@GRAD"),
        ("fc_0.b_0", "fc_0.b_0@GRAD"),
    ]
    assert ops[0].attrs == {"scale": 0.1}
    assert ops[1].inputs == {
        "Param": ["w"],
        "Grad": ["w@GRAD"],
        "LearningRate": ["learning_rate_0@SCALE@0.1"],
        "Moment1": ["w_mine_moment1_0"],
        "Moment2": ["w_mine_moment2_0"],
        "Step": ["w_mine_step_0"],
    }
    assert ops[2].input("LearningRate") == ["learning_rate_0"]
    penalties = [(op.attr("regularization_method"), op.attr("regularization_coeff")) for op in ops[1:]]
    assert penalties == [("l1_decay", 0.5), ("l2_decay", 0.01)]
    kept = {name for name, var in built.main.global_block().vars.items() if var.persistable}
    assert kept == set(built.startup.global_block().vars)
    assert {op.role for op in built.startup.global_block().ops} == {"forward"}


def test_the_factor_of_a_parameter_is_a_factor_on_the_rate() -> None:
    results = []
    for rate, factor in ((0.05, 1.0), (0.1, 0.5)):
        with building() as built:
            of.SGD(rate).minimize(line(name="w", learning_rate=factor))
        built.start(w=np.ones((4, 1), np.float32))
        built.run({"x": X, "y": Y})
        results.append(built["w"])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


def test_first_values_go_to_the_startup_program_that_is_given() -> None:
    with building() as built:
        loss = line()
        other = Program()
        of.Adagrad(0.1, initial_accumulator_value=0.3).minimize(loss, startup_program=other)
    assert set(other.global_block().vars) == {"learning_rate_0", "fc_0.w_0_moment_0", "fc_0.b_0_moment_0"}
    assert {op.attr("value") for op in other.global_block().ops} == {0.1, 0.3}
    assert set(built.startup.global_block().vars) == {"fc_0.w_0", "fc_0.b_0"}


def test_a_program_that_is_not_the_default_one() -> None:
    with building() as built:
        loss = line()
        with program_guard(Program(), built.startup):
            of.SGD(0.1).minimize(loss)
    assert built.main.is_trained
    built.start()
    built.run({"x": X, "y": Y})


def test_several_losses_in_one_program() -> None:
    """Each trains what it depends on; those of one optimizer share its rate."""
    with building() as built:
        x, y = data("x", [4]), data("y", [1])
        losses = [mean(square_error_cost(fc(x, 1, param_attr=name, bias_attr=False), y)) for name in "abc"]
        optimizer = of.SGD(0.1)
        found = [optimizer.minimize(losses[0]), optimizer.minimize(losses[1]), of.SGD(0.2).minimize(losses[2])]
    updates = [(op.input("Param"), op.input("LearningRate")) for ops, _ in found for op in ops]
    assert updates == [(["a"], ["learning_rate_0"]), (["b"], ["learning_rate_0"]), (["c"], ["learning_rate_1"])]
    ones = np.ones((4, 1), np.float32)
    built.start(a=ones, b=ones, c=ones)
    built.run({"x": X, "y": Y})
    np.testing.assert_array_equal(built["a"], built["b"])
    np.testing.assert_allclose(built["c"] - 1, 2 * (built["a"] - 1), rtol=1e-4)


def test_two_losses_of_the_same_parameters() -> None:
    with building() as built:
        out = mean(fc(data("x", [4]), 1, param_attr="w", bias_attr=False))
        pairs = [of.Momentum(1.0, 0.9).minimize(loss)[1][0] for loss in (mean(out), mean(out * 2.0))]
    assert [gradient.name for _, gradient in pairs] == ["w@GRAD", "w@GRAD@1"]
    assert {"w_velocity_0", "w_velocity_1"} <= set(built.main.global_block().vars)
    built.start(w=np.zeros((4, 1), np.float32))
    built.run({"x": X})
    np.testing.assert_allclose(built["w"], -3 * X.mean(axis=0)[:, None], rtol=1e-5, atol=1e-6)


def test_parameters_are_chosen() -> None:
    with building():
        _, pairs = of.SGD(0.1, parameter_list=["fc_0.b_0"]).minimize(line())
    assert [parameter.name for parameter, _ in pairs] == ["fc_0.b_0"]
    with building():
        _, pairs = of.SGD(0.1).minimize(line(), no_grad_set={"fc_0.b_0"})
    assert [parameter.name for parameter, _ in pairs] == ["fc_0.w_0"]
    with building():
        _, pairs = of.SGD(0.1).minimize(line(trainable=False))
    assert [parameter.name for parameter, _ in pairs] == ["fc_0.b_0"]


def test_backward_and_apply_gradients_are_minimize() -> None:
    texts = []
    for in_parts in (False, True):
        with building() as built:
            loss, optimizer = line(), of.Momentum(0.1, 0.9)
            if in_parts:
                optimizer.apply_gradients(optimizer.backward(loss))
            else:
                optimizer.minimize(loss)
        texts.append(str(built.main) + str(built.startup))
    assert texts[0] == texts[1]


def test_the_learning_rate_can_be_read_and_set() -> None:
    with building() as built:
        optimizer = of.SGD(0.1)
        optimizer.minimize(line())
        with pytest.raises(NotReadyError, match="run the startup program first"):
            optimizer.get_lr(built.scope)
        built.start()
        assert optimizer.get_lr(built.scope) == pytest.approx(0.1)
        optimizer.set_lr(0.0, built.scope)
        before = built["fc_0.w_0"]
        built.run({"x": X, "y": Y})
        np.testing.assert_array_equal(built["fc_0.w_0"], before)
        with pytest.raises(UsageError, match="learning rate must be >= 0, got -1"):
            optimizer.set_lr(-1, built.scope)
        with pytest.raises(UsageError, match="computed by the program as 'rate'; fetch that"):
            of.SGD(fed("rate", [1])).get_lr()


def test_a_learning_rate_that_is_a_variable() -> None:
    with building() as built:
        loss = line(name="w")
        of.SGD(fed("rate", [1])).minimize(loss)
    built.start(w=np.ones((4, 1), np.float32))
    built.run({"x": X, "y": Y, "rate": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(built["w"], np.ones((4, 1)))


def test_weight_decay_is_left_out_where_asked() -> None:
    with building():
        ops, _ = of.Lamb(0.1, exclude_from_weight_decay_fn=lambda parameter: parameter.name == "fc_0.b_0").minimize(
            line()
        )
        assert [op.attr("weight_decay") for op in ops] == [0.01, 0.0]
    with building():
        ops, _ = of.LarsMomentum(0.1, 0.9, exclude_from_weight_decay=["b_0"]).minimize(line())
        assert [op.attr("lars_weight_decay") for op in ops] == [0.0005, 0.0]


def test_programs_of_one_scope_have_accumulators_of_their_own() -> None:
    with building() as built:
        programs = [built.main, Program()]
        for program in programs:
            with program_guard(program):
                of.Adam(0.1).minimize(mean(fc(data("x", [3]), 2, param_attr="w", bias_attr=False)))
    moments = [{var.name for var in program.list_vars() if "moment1" in var.name} for program in programs]
    assert moments == [{"w_moment1_0"}, {"w_moment1_1"}]
    assert moments[0] | moments[1] <= {var.name for var in built.startup.list_vars()}


def test_old_names() -> None:
    assert of.AdamOptimizer is of.Adam
    assert of.__all__ == sorted(of.__all__, key=lambda name: (not name.isupper(), name))


def test_regularizers_are_penalties() -> None:
    assert (L2Decay(0.5), L1Decay(0.5)) == (Penalty("l2", 0.5), Penalty("l1", 0.5))


def test_mistakes_of_minimize_are_named() -> None:
    with building() as built:
        loss = line()
        with pytest.raises(UsageTypeError, match="loss must be a Variable, got float"):
            of.SGD(0.1).minimize(0.5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"must have one element, got shape \[-1, 1\]"):
            of.SGD(0.1).minimize(built.main.global_block().var("fc_0.tmp_0"))
        with pytest.raises(UsageError, match="learning rate 'elsewhere' is not in the loss's program"):
            with program_guard(Program(), Program()):
                rate = fed("elsewhere", [1])
            of.SGD(rate).minimize(loss)
    with building():
        loss = line()
        of.SGD(0.1).minimize(loss)
        with pytest.raises(UsageError, match=r"minimizes .* already; call minimize\(\) of one, once"):
            of.SGD(0.1).minimize(loss)
    with building():
        constant = mean(data("x", [4]))
        with pytest.raises(UsageError, match="depends on no trainable parameter"):
            of.SGD(0.1).minimize(constant)
        with pytest.raises(UsageError, match="params_grads is empty"):
            of.SGD(0.1).apply_gradients([])
        with pytest.raises(UsageTypeError, match="pairs of parameter and gradient"):
            of.SGD(0.1).apply_gradients([(constant, constant)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("make", "args", "message"),
    [
        (of.Optimizer, {}, "use SGD, Adam"),
        (of.SGD, {"learning_rate": -0.1}, "SGD: learning_rate must be >= 0, got -0.1"),
        (of.SGD, {"learning_rate": "fast"}, "SGD: learning_rate must be a number, got 'fast'"),
        (of.SGD, {"regularization": 0.1}, "regularization must be L1Decay or L2Decay, got 0.1"),
        (of.SGD, {"grad_clip": 1.0}, "grad_clip must be one of static.clip, got 1.0"),
        (of.SGD, {"name": ""}, "name must have at least one character"),
        (of.Momentum, {"momentum": -1}, "Momentum: momentum must be >= 0, got -1"),
        (of.Momentum, {"momentum": 0.9, "use_nesterov": 1}, "use_nesterov must be True or False, got 1"),
        (of.Adam, {"beta1": 1.0}, "Adam: beta1 must be >= 0 and < 1, got 1.0"),
        (of.Adam, {"lazy_mode": "no"}, "lazy_mode must be True or False, got 'no'"),
        (of.AdamW, {"weight_decay": -1}, "AdamW: weight_decay must be >= 0, got -1"),
        (of.Ftrl, {"lr_power": 0.5}, "Ftrl: lr_power must be >= -1 and <= 0, got 0.5"),
        (of.RMSProp, {"rho": float("nan")}, "RMSProp: rho must be a finite number, got nan"),
        (of.Lamb, {"exclude_from_weight_decay_fn": "b_0"}, "must be a function, got 'b_0'"),
        (of.LarsMomentum, {"momentum": 0.9, "exclude_from_weight_decay": "b_0"}, "must be a list of parts of names"),
        (of.SGD, {"lr": 0.1}, "^SGD has no argument 'lr'; did you mean 'learning_rate'.$"),
        (of.Adam, {"beta_1": 0.1}, "^Adam has no argument 'beta_1'; did you mean 'beta1'.$"),
        (of.Momentum, {"xyz": 1}, "^Momentum has no argument 'xyz'; it has learning_rate, momentum, use_nesterov, reg"),
    ],
)
def test_bad_settings_are_named(make: Callable[..., object], args: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, UsageTypeError), match=message):
        make(**{"learning_rate": 0.1, **args})
    with pytest.raises(UsageError, match="L2Decay: regularization_coeff must be >= 0, got -1"):
        L2Decay(-1)


def test_the_parameter_itself_may_be_given() -> None:
    with building() as built:
        loss = line()
        chosen = built.main.global_block().var("fc_0.w_0")
        assert isinstance(chosen, Parameter)
        _, pairs = of.SGD(0.1).minimize(loss, parameter_list=[chosen])
    assert [parameter for parameter, _ in pairs] == [chosen]


class _Own(of.SGD):
    """A user's own, whose arguments end with none of those that all take."""

    def __init__(self, learning_rate: float, mu: float = 0.5) -> None:
        super().__init__(learning_rate)
        self.mu = mu


class _Open(of.SGD):
    """One that takes names which only it knows."""

    def __init__(self, learning_rate: float, **more: Any) -> None:
        self.mu = more.pop("mu")
        super().__init__(learning_rate, **more)


@pytest.mark.parametrize("make", [_Own, _Open])
def test_optimizers_of_users_have_arguments_of_their_own(make: Any) -> None:
    assert make(learning_rate=0.1, mu=0.9).mu == 0.9
    with pytest.raises(UsageTypeError, match="^_(Own|Open) has no argument 'mv'; "):
        make(learning_rate=0.1, **({"mv": 1} if make is _Own else {"mu": 1, "mv": 1}))
