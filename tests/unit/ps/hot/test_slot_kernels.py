"""The kernels of Triton against torch's operations: on a GPU, or with TRITON_INTERPRET=1 on a CPU."""

from __future__ import annotations

import os

import pytest
import torch

from fleet.ps.hot.slot_sets import FULL, SlotSets, kinds_of

pytest.importorskip("triton", reason="Triton comes with torch for GPUs")
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() or IS_INTERPRETED), reason="this machine has no GPU; set TRITON_INTERPRET=1"
)
STATE = ("_keys", "_slots", "_calls", "_uses")


@pytest.mark.parametrize(("capacity", "most"), [(64, 40), (640, 300), (33, 20)])
@pytest.mark.parametrize("spread", [1, 2**33, -(2**40) + 7])
def test_the_same_plans_and_the_same_slots(capacity: int, most: int, spread: int) -> None:
    device = torch.device("cpu" if IS_INTERPRETED else "cuda")
    plain, ours = (SlotSets(capacity, device, kernels=which) for which in (False, True))
    assert ours._kernels is not None
    generator = torch.Generator().manual_seed(capacity)
    num_full = num_gone = 0
    for call in range(1, 15):
        drawn = (torch.rand(most, generator=generator) ** 3 * 5 * capacity).long() * spread
        keys = drawn.unique()[: int(torch.randint(most, (1,), generator=generator))].to(device)
        one, other = plain.plan(keys, call, call - 1), ours.plan(keys, call, call - 1)
        for name, a, b in zip(one._fields, one, other, strict=True):
            assert torch.equal(a, b), (call, name)
        kinds = kinds_of(one.facts[2].cpu().numpy())
        num_gone += len(kinds)
        if (kinds == FULL).any():
            num_full += 1
            plain.grow()
            ours.grow()
            continue
        assert torch.equal(plain.take(one, call), ours.take(other, call))
        for name in STATE:
            assert torch.equal(getattr(plain, name), getattr(ours, name)), (call, name)
    assert num_gone > 0


def test_no_keys_at_all() -> None:
    device = torch.device("cpu" if IS_INTERPRETED else "cuda")
    sets = SlotSets(64, device, kernels=True)
    plan = sets.plan(torch.empty(0, dtype=torch.int64, device=device), 1, 0)
    assert plan.facts.shape == (3, 0)
    assert len(sets.take(plan, 1)) == 0
