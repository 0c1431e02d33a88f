"""Updates, clips and schedules of programs on a GPU, against the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet_programs.backward import clip as clips
from fleet_programs.executor import fuse
from fleet_programs.executor.place import CUDAPlace
from fleet_programs.layers import learning_rate as rates
from fleet_programs.parameters.regularizer import L1Decay, L2Decay
from program_support.programs import building
from program_support.update_cases import (
    CASES,
    HEIGHT,
    LR,
    MANY,
    NUM_MANY,
    WIDTH,
    Case,
    dense_program,
    many_updates,
    many_values,
    random,
    sparse_program,
)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

MORE: list[dict[str, Any]] = [
    {},
    {"regularization": L2Decay(0.1)},
    {"regularization": L1Decay(0.1), "grad_clip": clips.GradientClipByValue(0.5)},
    {"grad_clip": clips.GradientClipByNorm(0.5)},
    {"grad_clip": clips.GradientClipByGlobalNorm(0.5)},
]


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_update(case: Case, is_sparse: bool) -> None:
    feeds = [{"g": random(HEIGHT, WIDTH, seed=1)}] * 5
    if is_sparse:  # rows that come at different times have different counts
        feeds = [{"ids": np.array([5, step % 3, 5, 2]), "values": random(4, WIDTH, seed=1)} for step in range(5)]
    for more in MORE:
        results = []
        for place in (None, CUDAPlace(0)):
            made = case.make(LR, **more)
            built = sparse_program(made, place=place) if is_sparse else dense_program(made, place=place)
            built.start(w=random(HEIGHT, WIDTH))
            for feed in feeds:
                built.run(feed)
            results.append(built["w"])
        np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
        assert not np.allclose(results[0], random(HEIGHT, WIDTH))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_dense_update_waits_for_nothing(case: Case) -> None:
    made = case.make(LR, regularization=L2Decay(0.1), grad_clip=clips.GradientClipByGlobalNorm(0.5))
    built = dense_program(made, place=CUDAPlace(0))
    built.start(w=random(HEIGHT, WIDTH))
    feed = {"g": torch.from_numpy(random(HEIGHT, WIDTH, seed=1)).cuda()}
    built.run(feed)
    torch.cuda.set_sync_debug_mode("error")
    try:
        built.run(feed)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", MANY)
def test_many_updates_in_one_call(name: str) -> None:
    """The same as one after the other, and it waits for nothing."""
    results = []
    for passes in (fuse.PASSES, ()):
        built = many_updates(MANY[name](LR, regularization=L2Decay(0.1)), place=CUDAPlace(0))
        built.start(**many_values(built))
        feed = {key: torch.from_numpy(one).cuda() for key, one in many_values(built, "_g", 1).items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fuse, "PASSES", passes)
            built.run(feed)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(3):
                built.run(feed)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert len(list(built._executor._steps.values())[-1].step.ops) == (1 if passes else NUM_MANY)
        results.append(dict(built.scope.tensors))
    for key, tensor in results[0].items():
        if name.startswith("adam"):
            torch.testing.assert_close(tensor, results[1][key], rtol=1e-7, atol=1e-7)
        else:
            assert torch.equal(tensor, results[1][key]), key


def test_schedules() -> None:
    results = []
    for place in (None, CUDAPlace(0)):
        with building(place) as built:
            made = [
                rates.exponential_decay(0.5, 3, 0.9, staircase=True),
                rates.natural_exp_decay(0.5, 3, 0.9),
                rates.inverse_time_decay(0.5, 3, 0.9),
                rates.polynomial_decay(0.5, 3, 0.1, 2.0, cycle=True),
                rates.piecewise_decay([2, 4], [0.3, 0.2, 0.1]),
                rates.noam_decay(64, 4),
                rates.cosine_decay(0.5, 2, 3),
            ]
            made.append(rates.linear_lr_warmup(made[0], 3, 0.1, 0.3))
        built.start()
        results.append([np.concatenate(built.run(None, *made)) for _ in range(6)])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
