"""Gradient clips against torch's, on dense and sparse gradients, by an optimizer and by `set_gradient_clip`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.backward import clip as clips
from fleet_programs.layers.io import fed
from fleet_programs.optimizer import SGD
from fleet_programs.program.notes import CLIP_NOTE
from fleet_programs.program.variable import Parameter, Variable
from program_support.programs import Built, building

RNG = np.random.default_rng(0)
A, B, ROWS = (RNG.normal(size=shape).astype(np.float32) for shape in ((3, 2), (4,), (3, 2)))
IDS = np.array([4, 1, 4])


def _limit(grads: Sequence[torch.Tensor], most: float) -> None:
    parameters = [torch.nn.Parameter(grad) for grad in grads]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad
    torch.nn.utils.clip_grad_norm_(parameters, most)


CLIPS: dict[str, tuple[clips.GradientClip, Callable[[list[torch.Tensor]], object]]] = {
    "value": (clips.GradientClipByValue(0.5, -0.2), lambda grads: [grad.clamp_(-0.2, 0.5) for grad in grads]),
    "value both ways": (clips.GradientClipByValue(0.5), lambda grads: [grad.clamp_(-0.5, 0.5) for grad in grads]),
    "norm": (clips.GradientClipByNorm(0.7), lambda grads: list(map(partial(_limit, most=0.7), zip(grads)))),
    "global norm": (clips.GradientClipByGlobalNorm(0.7), partial(_limit, most=0.7)),
    "large global norm": (clips.GradientClipByGlobalNorm(1e6), len),
}


def program(finish: Callable[[list[tuple[Parameter, Variable]]], Any], free: Sequence[str] = ()) -> Built:
    """Parameters a and b with gradients that are fed, and a table with a sparse one; all begin at 0."""
    with building() as built:
        block = built.main.global_block()
        shapes = {"a": A.shape, "b": B.shape, "table": (5, 2)}
        params = [block.create_parameter(name, shape, need_clip=name not in free) for name, shape in shapes.items()]
        given = {"Ids": fed("ids", (-1,), "int64"), "Out@GRAD": fed("rows", (-1, 2))}
        block.append_op("lookup_table_v2_grad", given, {"W@GRAD": "table@GRAD"}, {"is_sparse": True})
        grads = [fed("a@GRAD", A.shape), fed("b@GRAD", B.shape), block.var("table@GRAD")]
        finish(list(zip(params, grads, strict=True)))
    built.start(**{name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    return built


def step(built: Built) -> list[Any]:
    """What each parameter moved by, turned around: its clipped gradient, at a rate of 1."""
    built.run({"a@GRAD": A, "b@GRAD": B, "ids": IDS, "rows": ROWS})
    return [-built[name] for name in ("a", "b", "table")]


def whole() -> list[torch.Tensor]:
    table = torch.zeros(5, 2).index_add_(0, torch.from_numpy(IDS), torch.from_numpy(ROWS))
    return [torch.from_numpy(A.copy()), torch.from_numpy(B.copy()), table]


def assert_equal(found: list[Any], expected: list[torch.Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("clip", "limit"), CLIPS.values(), ids=CLIPS.keys())
def test_an_optimizer_clips_as_torch_does(
    clip: clips.GradientClip, limit: Callable[[list[torch.Tensor]], object]
) -> None:
    expected = whole()
    limit(expected)
    assert_equal(step(program(SGD(1.0, grad_clip=clip).apply_gradients)), expected)


def test_parameters_may_be_left_out() -> None:
    a, b, table = whole()
    _limit([a, table], 0.7)
    clip = clips.GradientClipByGlobalNorm(0.7)
    assert_equal(step(program(SGD(1.0, grad_clip=clip).apply_gradients, free=["b"])), [a, b, table])
    chosen = clips.GradientClipByGlobalNorm(0.7, need_clip=lambda parameter: parameter.name != "b")
    assert_equal(step(program(SGD(1.0, grad_clip=chosen).apply_gradients)), [a, b, table])
    nobody = clips.GradientClipByGlobalNorm(0.7, need_clip=lambda _: False)
    assert_equal(step(program(SGD(1.0, grad_clip=nobody).apply_gradients)), whole())


def test_clips_of_single_parameters_and_groups() -> None:
    def finish(pairs: list[tuple[Parameter, Variable]]) -> None:
        a, b, _ = (parameter for parameter, _ in pairs)
        program = a.block.program
        clips.set_gradient_clip(clips.GradientClipByNorm(0.1))
        clips.set_gradient_clip(clips.GradientClipByGlobalNorm(0.7), [a], program)
        clips.set_gradient_clip(clips.GradientClipByGlobalNorm(0.7), ["table"])
        clips.set_gradient_clip(clips.GradientClipByValue(0.3), [b])
        SGD(1.0).apply_gradients(pairs)
        assert program.notes == {}
        assert [op.type for op in program.global_block().ops[1:3]] == ["clip_by_global_norm", "clip"]
        assert program.global_block().ops[1].output("Out") == ["a@GRAD@CLIP", "table@GRAD@CLIP"]
        assert program.global_block().var("table@GRAD@CLIP").kind == "rows"

    a, b, table = whole()
    _limit([a, table], 0.7)
    assert_equal(step(program(finish)), [a, b.clamp(-0.3, 0.3), table])


def test_what_is_noted_waits_for_its_parameter() -> None:
    def finish(pairs: list[tuple[Parameter, Variable]]) -> None:
        program = pairs[0][0].block.program
        clips.set_gradient_clip(clips.GradientClipByValue(0.3))
        SGD(1.0).apply_gradients(pairs[1:])
        assert program.notes[CLIP_NOTE] == {"a": {"kind": "value", "max": 0.3, "min": -0.3}}
        SGD(1.0).apply_gradients(pairs[:1])
        assert program.notes == {}

    assert_equal(step(program(finish)), [grad.clamp(-0.3, 0.3) for grad in whole()])


def test_mistakes_are_named() -> None:
    with building() as built:
        with pytest.raises(UsageError, match="call it after the layers and before"):
            clips.set_gradient_clip(clips.GradientClipByNorm(1.0))
        block = built.main.global_block()
        block.create_parameter("w", (1,))
        block.create_parameter("v", (1,))
        with pytest.raises(UsageTypeError, match=r"clip must be a GradientClipBy\.\.\., got float"):
            clips.set_gradient_clip(1.0)  # type: ignore[arg-type]
        with pytest.raises(UsageTypeError, match="param_list must hold parameters or their names, got 'x'"):
            block.create_var("x")
            clips.set_gradient_clip(clips.GradientClipByNorm(1.0), ["x"])
        clips.set_gradient_clip(clips.GradientClipByGlobalNorm(1.0, "mine"), ["w"])
        with pytest.raises(UsageError, match=r"group 'mine' has clip_norm 1.0 for 'w', and now gets 2.0"):
            clips.set_gradient_clip(clips.GradientClipByGlobalNorm(2.0, "mine"), ["v"])
        with pytest.raises(UsageError, match="min must not be above max, got 2.0 and 1.0"):
            clips.GradientClipByValue(1.0, 2.0)
        with pytest.raises(UsageError, match="GradientClipByNorm: clip_norm must be > 0, got 0"):
            clips.GradientClipByNorm(0)
        with pytest.raises(UsageError, match="GradientClipByGlobalNorm: clip_norm must be > 0, got -1"):
            clips.GradientClipByGlobalNorm(-1)
        with pytest.raises(UsageTypeError, match="need_clip must be a function, got True"):
            clips.GradientClipByNorm(1.0, need_clip=True)  # type: ignore[arg-type]
        with pytest.raises(UsageTypeError, match="group_name must be text, got 3"):
            clips.GradientClipByGlobalNorm(1.0, 3)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="max_global_norm must be > 0, got 0"):
            block.append_op("clip_by_global_norm", {"X": "x"}, {"Out": "y"}, {"max_global_norm": 0})
        with pytest.raises(UsageError, match="Out must be as many as X, got 1 for 2"):
            block.append_op("clip_by_global_norm", {"X": ["x", "w"]}, {"Out": "y"})
