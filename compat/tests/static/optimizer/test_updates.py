"""Update operators through an Executor, against torch.optim and against the native rules of servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job.rule_table import RULES
from fleet_programs import optimizer as of
from fleet_programs.definition.kinds import TENSOR
from fleet_programs.definition.registry import definitions
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows
from fleet_programs.parameters.regularizer import L1Decay, L2Decay
from fleet_programs.program.block import Block
from program_support.programs import building
from program_support.update_cases import (
    CASES,
    HEIGHT,
    LR,
    STEPS,
    WIDTH,
    Case,
    Floats,
    dense_program,
    random,
    sparse_program,
)

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def by_rule(case: Case, values: Floats, grads: list[Floats], **more: float) -> Floats:
    rule = _native.Rule(case.rule, {"lr": LR, **case.args, **more})
    flat = values.ravel().copy()
    state = rule.start(flat.size)
    for grad in grads:
        rule.apply(flat, state, grad.ravel(), float(np.float32(LR)))  # as a program has it
    return flat.reshape(values.shape)


BY_TORCH = {"sgd", "momentum", "adam", "adamw"}
"""Rules whose operators call torch's own updates, which round otherwise than servers do."""
NO_OPERATOR = {"adagrad_row", "average", "sum"}


def test_every_rule_and_every_operator_is_tried() -> None:
    assert {case.rule for case in CASES.values()} == set(RULES) - NO_OPERATOR
    tried = {dense_program(case.make(LR)).main.global_block().ops[-1].type for case in CASES.values()}
    found = {one.type for one in definitions() if "LearningRate" in one.inputs and not one.type.startswith("fused_")}
    assert tried == found - {"adadelta"}  # a rule of PaddlePaddle alone, in compat


@cases
def test_a_dense_gradient(case: Case) -> None:
    start, grads = random(HEIGHT, WIDTH), [random(HEIGHT, WIDTH, seed=step + 1) for step in range(STEPS)]
    built = dense_program(case.make(LR))
    built.start(w=start)
    for grad in grads:
        built.run({"g": grad})
    bound = 1e-6 if case.rule in BY_TORCH else RULES[case.rule].bound
    np.testing.assert_allclose(built["w"], by_rule(case, start, grads), rtol=bound, atol=bound)
    if case.like is not None:
        parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
        reference = case.like([parameter], lr=LR)
        for grad in grads:
            parameter.grad = torch.from_numpy(grad)
            reference.step()
        np.testing.assert_allclose(built["w"], parameter.detach(), rtol=1e-6, atol=1e-6)


@cases
def test_a_sparse_gradient_changes_its_rows_as_a_table_would(case: Case) -> None:
    """Equal ids are added; a row that is not there keeps its value and its state, and waits for its next turn."""
    start = random(HEIGHT, WIDTH)
    ids = [[5, 1, 5], [2, 1, 0], [1, 5, 1], [0, 0, 0], [5, 1, 2]]
    values = [random(len(of_step), WIDTH, seed=step + 1) for step, of_step in enumerate(ids)]
    built = sparse_program(case.make(LR))
    built.start(w=start)
    for of_step, grad in zip(ids, values, strict=True):
        built.run({"ids": np.array(of_step), "values": grad})
    for row in range(HEIGHT):
        merged = [
            grad[np.array(of_step) == row].sum(axis=0)
            for of_step, grad in zip(ids, values, strict=True)
            if row in of_step
        ]
        bound = 1e-6 if case.rule in BY_TORCH - {"adam", "adamw"} else RULES[case.rule].bound
        np.testing.assert_allclose(built["w"][row], by_rule(case, start[row], merged), rtol=bound, atol=bound)
    if counts(built.main.global_block()):
        np.testing.assert_array_equal(built["w_step_0"], [2, 4, 2, 0, 0, 3, 0])


def counts(block: Block) -> bool:
    return "w_step_0" in block.vars


@cases
def test_a_gradient_that_became_dense_counts_for_all_rows(case: Case) -> None:
    """As a pass leaves it that needs gradients whole; the count of each row goes on."""
    start, grads = random(HEIGHT, WIDTH), [random(HEIGHT, WIDTH, seed=step + 1) for step in range(STEPS)]
    built, plain = sparse_program(case.make(LR)), dense_program(case.make(LR))
    block = built.main.global_block()
    block.ops[0].attrs["is_sparse"], block.var("w@GRAD").kind = False, TENSOR
    built.main.changed()
    for one in (built, plain):
        one.start(w=start)
    for grad in grads:
        built.run({"ids": np.arange(HEIGHT), "values": grad})
        plain.run({"g": grad})
    np.testing.assert_allclose(built["w"], plain["w"], rtol=1e-6, atol=1e-6)
    if counts(block):
        np.testing.assert_array_equal(built["w_step_0"], [STEPS] * HEIGHT)


@pytest.mark.parametrize("name", ["adam", "adamax", "lamb"])
def test_a_table_of_one_row_counts_only_when_it_is_there(name: str) -> None:
    built = sparse_program(CASES[name].make(LR), height=1)
    start = random(1, WIDTH)
    built.start(w=start)
    grads = [random(1, WIDTH, seed=step) for step in (1, 2)]
    for grad in (grads[0], grads[0][:0], grads[1]):
        built.run({"ids": np.zeros(len(grad), np.int64), "values": grad})
    np.testing.assert_allclose(built["w"], by_rule(CASES[name], start, grads), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(built["w_step_0"], [2])


@pytest.mark.parametrize("is_sparse", [False, True])
@cases
def test_the_way_of_a_gpu_reads_no_number(case: Case, is_sparse: bool) -> None:
    """The kernel that a GPU gets, run on the CPU, where it must come to the same."""
    program = sparse_program if is_sparse else dense_program
    start, ids, grad = torch.from_numpy(random(HEIGHT, WIDTH)), torch.tensor([5, 1, 5]), random(HEIGHT, WIDTH, seed=1)
    given = Rows(ids, torch.from_numpy(grad[:3]), HEIGHT) if is_sparse else torch.from_numpy(grad)
    results = []
    for device in ("cpu", "cuda"):
        built = program(case.make(LR))
        built.start(w=start.clone())
        block = built.main.global_block()
        op = block.ops[-1]
        kernel = Lowering(block, torch.device(device), built.scope).kernel(op)
        for _ in range(2):
            kernel(*(given if name == op.input("Grad")[0] else built.scope.tensors[name] for name in op.input_names))
        results.append(built["w"])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=1e-6)
    assert not np.allclose(results[0], start)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_penalties_are_added_to_the_gradient(is_sparse: bool) -> None:
    start, grad = random(HEIGHT, WIDTH), random(HEIGHT, WIDTH, seed=1)
    for penalty, pull in ((L2Decay(0.3), 0.3 * start), (L1Decay(0.3), 0.3 * np.sign(start))):
        optimizer = of.SGD(LR, regularization=penalty)
        built = sparse_program(optimizer) if is_sparse else dense_program(optimizer)
        built.start(w=start)
        built.run({"ids": np.arange(HEIGHT), "values": grad} if is_sparse else {"g": grad})
        np.testing.assert_allclose(built["w"], start - LR * (grad + pull), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make", [of.Adam, of.AdamW])
def test_adam_does_not_care_how_memory_lies(make: Callable[[float], of.Optimizer]) -> None:
    start, grad = random(HEIGHT, WIDTH), random(HEIGHT, WIDTH, seed=1)
    plain, turned = dense_program(make(LR)), dense_program(make(LR))
    plain.start(w=start)
    turned.start()
    turned.scope.tensors["w"] = torch.from_numpy(np.asfortranarray(start))
    for _ in range(2):
        plain.run({"g": grad})
        turned.run({"g": torch.from_numpy(np.asfortranarray(grad))})
    np.testing.assert_array_equal(plain["w"], turned["w"])


@pytest.mark.parametrize("name", ["adam", "lamb", "ftrl", "rmsprop centered"])
def test_other_precisions(name: str) -> None:
    """State is as precise as the parameter; the learning rate and the count are float32."""
    start, grad = random(HEIGHT, WIDTH).astype(np.float64), random(HEIGHT, WIDTH, seed=1).astype(np.float64)
    built = dense_program(CASES[name].make(LR), "float64")
    built.start(w=start)
    built.run({"g": grad})
    expected = by_rule(CASES[name], start.astype(np.float32), [grad.astype(np.float32)])
    np.testing.assert_allclose(built["w"], expected, rtol=1e-5, atol=1e-6)
    assert built["w"].dtype == np.float64


@pytest.mark.parametrize("name", ["ftrl", "lars", "lamb"])
def test_a_rate_of_zero_and_a_gradient_of_zero(name: str) -> None:
    start = random(HEIGHT, WIDTH)
    built = dense_program(CASES[name].make(0.0))
    built.start(w=start)
    built.run({"g": random(HEIGHT, WIDTH, seed=1)})
    np.testing.assert_array_equal(built["w"], start)
    built = dense_program(CASES[name].make(LR))
    built.start(w=start)
    zeros = np.zeros_like(start)
    built.run({"g": zeros})
    np.testing.assert_allclose(built["w"], by_rule(CASES[name], start, [zeros]), rtol=1e-6, atol=1e-6)


def test_no_row_at_all() -> None:
    """A batch whose ids are all padding."""
    for case in CASES.values():
        built = sparse_program(case.make(LR))
        built.start(w=random(HEIGHT, WIDTH))
        built.run({"ids": np.zeros(0, np.int64), "values": np.zeros((0, WIDTH), np.float32)})
        np.testing.assert_array_equal(built["w"], random(HEIGHT, WIDTH))


def test_bad_operators_are_named() -> None:
    with building() as built:
        block = built.main.global_block()
        w, rate = block.create_parameter("w", (2, 3)), block.create_var("rate", (1,))
        grad, small = block.create_var("g", (2, 3)), block.create_var("small", (3,))
        given = {"Param": w, "Grad": grad, "LearningRate": rate}
        with pytest.raises(UsageError, match="'small' must be as Param 'w', float32 of shape"):
            block.append_op("sgd", {**given, "Grad": small}, {"ParamOut": w})
        with pytest.raises(UsageError, match="LearningRate 'small' must have one element"):
            block.append_op("sgd", {**given, "LearningRate": small}, {"ParamOut": w})
        with pytest.raises(UsageError, match=r"ParamOut must be \['w'\], which is changed in place, got \['g'\]"):
            block.append_op("sgd", given, {"ParamOut": grad})
        with pytest.raises(UsageError, match="regularization_method must be l2_decay, l1_decay or nothing, got 'l3'"):
            block.append_op("sgd", given, {"ParamOut": w}, {"regularization_method": "l3"})
        with pytest.raises(UsageError, match="Moment goes with a momentum above 0"):
            kept = {"MeanSquare": block.create_var("s", (2, 3))}
            block.append_op("rmsprop", {**given, **kept}, {"ParamOut": w, "MeanSquareOut": "s"}, {"momentum": 0.9})
        with pytest.raises(
            UsageError, match=r"Step 's' must be float32 of shape \[1\], or \[2\] to count for each row"
        ):
            kept = {"Moment": block.create_var("m", (2, 3)), "InfNorm": block.create_var("n", (2, 3))}
            kept["Step"] = block.var("s")
            outs: dict[str, Any] = {"ParamOut": w, "MomentOut": "m", "InfNormOut": "n", "StepOut": "s"}
            block.append_op("adamax", {**given, **kept}, outs)
        whole = block.create_parameter("whole", (2, 3), "int64")
        with pytest.raises(UsageError, match="Param 'whole' must be a float, got int64"):
            block.append_op("sgd", {**given, "Param": whole}, {"ParamOut": whole})
