"""`_native.SlotIndex` against a dict: every key has a slot of its own, and who is still needed keeps it."""

from __future__ import annotations

import numpy as np
import pytest

from fleet import _native


@pytest.mark.parametrize(("capacity", "num_keys", "each"), [(50, 300, 20), (70_000, 200_000, 15_000), (1, 40, 10)])
def test_slots_are_what_a_dict_says(capacity: int, num_keys: int, each: int) -> None:
    rng = np.random.default_rng(0)
    index = _native.SlotIndex(capacity)
    owner: dict[int, int] = {}
    slot_of: dict[int, int] = {}
    used: dict[int, int] = {}
    for now in range(1, 24):
        keys = np.unique((rng.random(each) ** 3 * num_keys).astype(np.int64) * 7919 - 5)
        slots = np.empty((3, len(keys)), np.int64)
        oldest = max(1, now - 1)
        new_keys, gone_keys = index.place(keys, now, oldest, slots)
        new_slots, gone_slots = slots[1, : len(new_keys)], slots[2, : len(gone_keys)]
        for key, slot in zip(gone_keys.tolist(), gone_slots.tolist(), strict=True):
            assert slot_of.pop(key) == slot
            assert owner.pop(slot) == key
            assert used[key] < oldest  # nobody worked with it any more
        assert {key for key in keys.tolist() if key not in slot_of} == set(new_keys.tolist())
        for key, slot in zip(new_keys.tolist(), new_slots.tolist(), strict=True):
            assert owner.setdefault(slot, key) == key
            slot_of[key] = slot
        assert [slot_of[key] for key in keys.tolist()] == slots[0].tolist()
        used.update(dict.fromkeys(keys.tolist(), now))
        assert max(owner) < index.num_slots
    all_keys, all_slots = index.all()
    assert dict(zip(all_keys.tolist(), all_slots.tolist(), strict=True)) == slot_of
    assert len(index) == len(slot_of)
    assert len(gone_keys)


def test_what_is_used_often_stays() -> None:
    index = _native.SlotIndex(100)
    slots = np.empty((3, 10), np.int64)
    hot = np.arange(10)
    for now in range(1, 300):
        keys = hot if now % 2 else np.arange(10) + 100 * now
        _, gone = index.place(keys, now, now, slots)
        assert not set(gone.tolist()) & set(hot.tolist())


def test_threads_change_nothing() -> None:
    found, before = [], _native.num_threads()
    for threads in (1, 4):
        _native.set_threads(threads)
        rng = np.random.default_rng(1)
        index = _native.SlotIndex(80_000)
        for now in range(1, 12):
            keys = np.unique(rng.integers(0, 300_000, 50_000))
            slots = np.zeros((3, len(keys)), np.int64)
            found.append((slots, *index.place(keys, now, now, slots)))
    _native.set_threads(before)
    half = len(found) // 2
    for one, other in zip(found[:half], found[half:], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_does_not_fit_is_refused() -> None:
    index = _native.SlotIndex(4)
    with pytest.raises(ValueError, match=r"slots must have shape \[3, 3\], got \[3, 2\]"):
        index.place(np.arange(3), 1, 1, np.empty((3, 2), np.int64))
    with pytest.raises(ValueError, match="capacity"):
        _native.SlotIndex(0)


def table(**more: object) -> _native.Table:
    given = {"dtype": "float32", **more}
    return _native.Table("t", 3, "adam", {"lr": 0.1}, "uniform", {"low": -1.0, "high": 1.0}, "always", {}, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_keys", [5, 20_000])
def test_records_go_there_and_back(num_keys: int) -> None:
    one, other = table(), table()
    keys = np.arange(num_keys) * 11 - 7
    grads = np.ones((num_keys, 3), np.float32)
    one.push(keys, grads, step=9, lr=0.1)
    one.push(keys[::2].copy(), grads[::2].copy(), step=12, lr=0.1)
    more = np.concatenate([keys, [10**12]])
    records = np.empty((len(more), one.record_words), np.int32)
    one.read(more, records)
    assert one.record_words == 3 + 7 + 3
    np.testing.assert_array_equal(records[:, :3].copy().view(np.float32), one.pull(more))
    assert records[:-1, -3:].tolist() == [[2, 12, 1] if i % 2 == 0 else [1, 9, 1] for i in range(num_keys)]
    assert records[-1, 3:].tolist() == [0] * 10  # a key without a row is what it would begin with
    other.write(more, records)
    assert len(other) == num_keys
    a, b = one.export(0, 64), other.export(0, 64)
    for name in ("values", "state", "seen", "step"):
        np.testing.assert_array_equal(a[name][a["keys"].argsort()], b[name][b["keys"].argsort()])


def test_records_of_what_has_none_are_refused() -> None:
    half = table(dtype="float16")
    with pytest.raises(ValueError, match="table 't' has no records: they are for float32 rows in memory, no clicks"):
        half.read(np.arange(2), np.empty((2, half.record_words), np.int32))
    with pytest.raises(TypeError, match="records must be int32, got float32"):
        table().write(np.arange(2), np.empty((2, 13), np.float32))
