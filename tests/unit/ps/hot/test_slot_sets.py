"""`SlotSets` against a dict: every key has a slot of its own, and who is still needed keeps it."""

from __future__ import annotations

import pytest
import torch

from fleet.ps.hot.slot_sets import FREE, FULL, MOST, TAKEN, WAYS, SlotAssignment, SlotSets, kinds_of

CPU = torch.device("cpu")


def kinds(plan: SlotAssignment) -> torch.Tensor:
    return torch.from_numpy(kinds_of(plan.facts[2].numpy()))


def place(
    sets: SlotSets, keys: torch.Tensor, now: int, oldest: int
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Slots of the keys, the new keys, and who went, with its slot; grows as need be."""
    plan = sets.plan(keys, now, oldest)
    while (kinds(plan) == FULL).any():
        sets.grow()
        plan = sets.plan(keys, now, oldest)
    gone = kinds(plan) == TAKEN
    slots = sets.take(plan, now)
    assert slots[plan.new].tolist() == plan.gone_slots.tolist()
    went = list(zip(plan.facts[1][gone].tolist(), plan.gone_slots[gone].tolist(), strict=True))
    return slots.tolist(), keys[plan.new].tolist(), went


@pytest.mark.parametrize(("capacity", "num_keys", "each"), [(50, 300, 20), (3_000, 20_000, 1_500), (1, 400, 100)])
def test_slots_are_what_a_dict_says(capacity: int, num_keys: int, each: int) -> None:
    generator = torch.Generator().manual_seed(0)
    sets = SlotSets(capacity, CPU)
    owner: dict[int, int] = {}
    slot_of: dict[int, int] = {}
    used: dict[int, int] = {}
    num_gone = 0
    for now in range(1, 40):
        keys = torch.unique((torch.rand(each, generator=generator) ** 3 * num_keys).long() * 7919 - 5)
        oldest = max(1, now - 1)
        slots, new, went = place(sets, keys, now, oldest)
        num_gone += len(went)
        for key, slot in went:
            assert slot_of.pop(key) == slot
            assert owner.pop(slot) == key
            assert used[key] < oldest  # nobody worked with it any more
        assert {key for key in keys.tolist() if key not in slot_of} == set(new)
        for key, slot in zip(keys.tolist(), slots, strict=True):
            assert slot_of.setdefault(key, slot) == slot  # also where the sets have grown meanwhile
            assert owner.setdefault(slot, key) == key
        used.update(dict.fromkeys(keys.tolist(), now))
        assert max(owner) < sets.num_slots
    all_keys, all_slots = sets.all()
    assert dict(zip(all_keys.tolist(), all_slots.tolist(), strict=True)) == slot_of
    assert num_gone


def test_what_is_used_often_stays_and_goes_when_it_no_longer_is() -> None:
    sets = SlotSets(100, CPU)
    hot = torch.arange(10)
    for now in range(1, 300):
        keys = hot if now % 2 else torch.arange(10) + 100 * now
        went = place(sets, keys, now, now)[2]
        assert not {key for key, _ in went} & set(hot.tolist())
    left = set(hot.tolist())
    for now in range(300, 300 + 10 * MOST * 4):
        left -= {key for key, _ in place(sets, torch.arange(10) + 100 * now, now, now)[2]}
    assert not left


def test_a_set_is_full_only_of_keys_that_are_needed() -> None:
    sets = SlotSets(WAYS, CPU)  # one set
    first, second = torch.arange(WAYS), torch.arange(WAYS) + 1000
    assert kinds(sets.plan(first, 1, 1)).tolist() == [FREE] * WAYS
    place(sets, first, 1, 1)
    assert kinds(sets.plan(second, 2, 2)).tolist() == [TAKEN] * WAYS
    assert kinds(sets.plan(second, 2, 1)).tolist() == [FULL] * WAYS
    both = torch.cat([first[:5], second[:28]])  # five stay though nobody else needs them: they are of this call
    assert kinds(sets.plan(both, 3, 3)).tolist().count(FULL) == 1


def test_keys_may_be_any_number() -> None:
    extremes = torch.tensor([-(2**63), -1, 0, 1, 2**63 - 1])
    sets = SlotSets(10, CPU)
    slots, new, _ = place(sets, extremes, 1, 1)
    assert sorted(slots) == sorted(set(slots))
    assert sorted(new) == extremes.tolist()
    assert place(sets, extremes.flip(0), 2, 2)[0] == slots[::-1]


def test_without_triton_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from fleet.ps.hot import slot_kernels, slot_sets

    slot_sets._kernels.cache_clear()
    monkeypatch.setattr(slot_kernels, "IS_THERE", False)
    try:
        assert SlotSets(64, torch.device("cpu"), kernels=True)._kernels is None
    finally:
        slot_sets._kernels.cache_clear()
