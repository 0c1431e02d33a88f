"""Records of rows, by which a cache takes them out of a table and puts them back."""

from __future__ import annotations

import numpy as np
import pytest

from fleet import _native


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
