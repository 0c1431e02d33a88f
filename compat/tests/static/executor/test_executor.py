"""The Executor: what may be fed, what comes back, scopes, and what close() ends."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.definition.operator import Operator
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.lod import LoDTensor, create_lod_tensor
from fleet_programs.executor.place import CPUPlace, CUDAPlace, device_of
from fleet_programs.executor.scope import Scope, global_scope, scope_guard
from fleet_programs.layers.io import fed
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building, trained

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def doubled(dtype: str = "float32") -> tuple[Built, Variable]:
    with building() as built:
        out = layers.scale(fed("x", [-1, 3], dtype), 2.0)
    return built, out


def read_only() -> Any:
    array = X.copy()
    array.flags.writeable = False
    return array


FEEDS: dict[str, Any] = {
    "array": X.copy(),
    "tensor": torch.from_numpy(X.copy()),
    "tensor with a gradient": torch.from_numpy(X.copy()).requires_grad_(),
    "transposed tensor": torch.from_numpy(np.ascontiguousarray(X.T)).t(),
    "list": X.tolist(),
    "tuple of arrays": (X[0], X[1]),
    "columns first": np.asfortranarray(X),
    "every other": np.repeat(X, 2, axis=0)[::2],
    "backwards": np.ascontiguousarray(X[::-1])[::-1],
    "read-only": read_only(),
}


@pytest.mark.parametrize("name", FEEDS)
def test_what_may_be_fed(name: str) -> None:
    """After any other as well: what was found out about one feed is not assumed of the next."""
    built, out = doubled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in [*FEEDS.values(), FEEDS[name], FEEDS[name]]:
            assert (built.run({"x": other}, out)[0] == 2 * X).all()
    assert (np.asarray(FEEDS["array"]) == X).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2, 3], [4, 5]], r"^feed 'x' must be float32 numbers of shape \[-1, 3\]: .*inhomogeneous"),
        ([["a", "b", "c"]], r"^feed 'x' must be float32 numbers of shape \[-1, 3\]: "),
        (np.array([["a", "b", "c"]]), r"^feed 'x' must be float32 numbers of shape \[-1, 3\]: can't convert"),
        (X.astype(">f4"), r"^feed 'x' must be float32 numbers .*byte order"),
        (X.astype(np.float16), "^feed 'x' must be float32, got float16"),
        (torch.zeros(2, 3, dtype=torch.int64), "^feed 'x' must be float32, got int64"),
        (1.0, r"^feed 'x' must have shape \[-1, 3\], got \[\]; reshape it$"),
    ],
)
def test_what_may_not_be_fed(value: Any, message: str) -> None:
    built, out = doubled()
    with pytest.raises(UsageError, match=message):
        built.run({"x": value}, out)


def test_a_feed_is_checked_again_when_it_changes() -> None:
    built, out = doubled()
    built.run({"x": X}, out)
    for wrong in (X[:, :2], X.astype(np.float64), torch.zeros(2, 3, dtype=torch.float64)):
        with pytest.raises(UsageError, match="^feed 'x' must"):
            built.run({"x": wrong}, out)
    built.run({"x": X[:1]}, out)


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "bool", "float16", "bfloat16"])
def test_numbers_become_what_the_variable_is(dtype: str) -> None:
    given = [True, False] if dtype == "bool" else [1, 0]
    with building() as built:
        x = fed("x", [2], dtype)
    (found,) = Executor().run(built.main, {"x": given}, [x], return_numpy=False)
    assert (str(found.dtype), found.tolist()) == (f"torch.{dtype}", [1, 0])
    assert Executor().run(built.main, {"x": given}, [x])[0].tolist() == [1, 0]


def test_numbers_that_would_lose_something() -> None:
    with building() as built:
        x = fed("x", [2], "int64")
    with pytest.raises(UsageError, match=r"^feed 'x' must be int64 numbers of shape \[2\]: float64 is no int64"):
        built.run({"x": [1.5, 2]}, x)


@pytest.mark.parametrize("return_numpy", [True, False])
def test_what_is_fetched_shares_nothing_with_what_was_fed(return_numpy: bool) -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        view = layers.reshape(x, [-1])
    mine = X.copy()
    found = Executor().run(built.main, {"x": mine}, [x, view], return_numpy=return_numpy)
    mine[:] = 7
    assert all((np.asarray(one).ravel() == X.ravel()).all() for one in found)


def test_offsets_and_rows_that_are_fetched_share_nothing_with_what_was_fed() -> None:
    with building() as built:
        ragged, ids = fed("ragged", [-1, 1], lod_level=1), fed("ids", [-1, 1], "int64")
        loss = layers.mean(layers.embedding(ids, [9, 3], is_sparse=True))
        optimizer.SGD(0.1).minimize(loss)
        fetches: list[Variable | str] = [layers.scale(ragged, 2.0), "embedding_0.w_0@GRAD"]
    built.start()
    offsets, mine = np.array([0, 1, 3]), np.array([[1], [2]])
    feed = {"ragged": (ROWS, offsets), "ids": mine}
    found, rows = Executor().run(built.main, feed, fetches, scope=built.scope, return_numpy=False)
    offsets[:], mine[:] = 0, 7
    assert (found.lod(), rows.index.tolist()) == ([[0, 1, 3]], [1, 2])


@pytest.mark.parametrize("return_numpy", [True, False])
def test_a_parameter_is_fetched_as_a_copy(return_numpy: bool) -> None:
    (built, _), exe = trained(), Executor()
    first, second = (
        exe.run(built.main, {"x": X}, ["fc_0.w_0"], scope=built.scope, return_numpy=return_numpy)[0] for _ in range(2)
    )
    np.testing.assert_allclose(first - second, X.mean(0)[:, None], rtol=1e-5)


def test_what_is_fetched_is_numpy_or_tensors() -> None:
    (built, loss), exe = trained(), Executor()
    (array,) = exe.run(built.main, {"x": X}, [loss], scope=built.scope)
    (tensor,) = exe.run(built.main, {"x": X}, [loss], scope=built.scope, return_numpy=False)
    assert isinstance(array, np.ndarray)
    assert isinstance(tensor, torch.Tensor)
    assert (array.shape, tensor.shape, type(tensor * 2)) == ((1,), (1,), torch.Tensor)
    assert tensor.recursive_sequence_lengths() == tensor.lod() == []  # type: ignore[attr-defined]
    twice = exe.run(built.main.clone(for_test=True), {"x": X}, [loss, loss], scope=built.scope)
    assert twice[0] == twice[1]


OFFSETS = [0, 2, 2, 3]
ROWS = np.arange(3, dtype=np.float32).reshape(3, 1)
RAGGED: dict[str, Any] = {
    "LoDTensor": LoDTensor(ROWS, OFFSETS),
    "pair": (ROWS, OFFSETS),
    "pair of tensors": (torch.from_numpy(ROWS), torch.tensor(OFFSETS)),
    "rows": [[0.0, 1.0], [], [2.0]],
    "rows of arrays": [ROWS[:2], ROWS[2:2], ROWS[2:]],
    "lengths": create_lod_tensor(ROWS, [[2, 0, 1]], CPUPlace()),
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_values_in_and_out(name: str) -> None:
    with building() as built:
        x = fed("x", [-1, 1], lod_level=1)
        out, pooled = layers.scale(x, 2.0), layers.sequence_pool(x, "sum")
    feed, exe = {"x": RAGGED[name]}, Executor()
    found, sums = exe.run(built.main, feed, [out, pooled], return_numpy=False)
    assert isinstance(found, LoDTensor)
    assert isinstance(sums, torch.Tensor)
    assert (found.lod(), found.recursive_sequence_lengths(), len(found)) == ([OFFSETS], [[2, 0, 1]], 3)
    assert (found.shape(), np.array(found).tolist()) == ([3, 1], (2 * ROWS).tolist())
    assert sums.tolist() == [[1.0], [0.0], [2.0]]
    (array,) = exe.run(built.main, feed, [out])
    assert array.tolist() == (2 * ROWS).tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ROWS, "^feed 'x' is ragged: give a LoDTensor, a pair .values, offsets. or a list of rows, got ndarray$"),
        ((ROWS, [0, 2]), "^offsets end at 2, but there are 3 values$"),
        ((ROWS, [1, 3]), r"^offsets must begin with 0 and never fall, got \[1, 3\]$"),
        ((ROWS, [0, 2, 1, 3]), r"^offsets must begin with 0 and never fall, got \[0, 2, 1, 3\]$"),
        ((ROWS, []), r"^offsets must begin with 0 and never fall, got \[\]$"),
        ((ROWS.astype(np.int64), OFFSETS), "^feed 'x' must be float32, got int64"),
        ((np.zeros((3, 2), np.float32), OFFSETS), r"^feed 'x' must have shape \[-1, 1\], got \[3, 2\]; reshape it$"),
    ],
)
def test_ragged_values_that_do_not_fit(value: Any, message: str) -> None:
    with building() as built:
        out = layers.sequence_pool(fed("x", [-1, 1], lod_level=1), "sum")
    with pytest.raises(UsageError, match=message):
        built.run({"x": value}, out)


def test_rows_that_cannot_be_cut() -> None:
    with building() as built:
        out = layers.sequence_pool(fed("x", [-1, 2], lod_level=1), "sum")
    with pytest.raises(UsageError, match=r"^feed 'x' must be rows of float32 values of shape \[2\]: cannot reshape"):
        built.run({"x": [[1, 2], [3]]}, out)
    assert built.run({"x": [[1, 2, 3, 4], [5, 6]]}, out)[0].tolist() == [[4, 6], [5, 6]]
    assert built.run({"x": []}, out)[0].shape == (0, 2)
    with pytest.raises(NotSupportedError, match="^recursive_sequence_lengths must have one or two levels, got 3$"):
        create_lod_tensor(ROWS, [[1], [1], [3]])


def test_one_number_is_fed_to_a_variable_of_one_value() -> None:
    with building() as built:
        out = layers.scale(fed("x", [-1, 1]), 2.0)
        wide = layers.scale(fed("y", [-1, 3]), 2.0)
    assert [built.run({"x": one}, out)[0].tolist() for one in (1.5, np.float32(1.5))] == [[[3.0]]] * 2
    with pytest.raises(UsageError, match=r"feed 'y' must have shape \[-1, 3\], got \[\]"):
        built.run({"y": 1.5}, wide)


def test_rows_in_groups_come_back_as_they_were_fed() -> None:
    with building() as built:
        x = fed("x", [-1, 1], lod_level=2)
        out = layers.scale(x, 2.0)
    assert (x.lod_level, out.lod_level) == (2, 2)
    values = np.arange(5.0, dtype="f").reshape(5, 1)
    feed = {"x": create_lod_tensor(values, [[2, 1], [2, 1, 2]])}
    found = Executor(CPUPlace()).run(built.main, feed, [out], return_numpy=False)[0]
    assert (found.lod(), np.array(found).ravel().tolist()) == ([[0, 2, 3], [0, 2, 3, 5]], [0, 2, 4, 6, 8])
    assert found.recursive_sequence_lengths() == [[2, 1], [2, 1, 2]]
    twice = Executor(CPUPlace()).run(built.main, [feed, feed], [out], return_numpy=False)[0]
    assert twice.recursive_sequence_lengths() == [[2, 1, 2, 1], [2, 1, 2, 2, 1, 2]]
    with pytest.raises(UsageError, match="feed 'x' has two levels of rows: give a LoDTensor with both"):
        built.run({"x": create_lod_tensor(values, [[5]])}, out)


class Adopting:
    """Stands in for a worker beside servers: the first operator has another scale, where one is given."""

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale
        self.stopped = 0

    def with_server_lookups(self, ops: Sequence[Operator], block: Block) -> list[Operator]:  # noqa: ARG002
        changed = [op.copy() for op in ops]
        if self.scale is not None:
            changed[0].attrs["scale"] = self.scale
        return changed

    def stop(self) -> None:
        self.stopped += 1


def test_close_stops_the_workers_of_the_scopes_it_ran_in() -> None:
    (built, loss), exe = trained(), Executor()
    used, unused = Adopting(), Adopting()
    built.scope.trainer, global_scope().trainer = used, unused
    try:
        for _ in range(2):
            exe.run(built.main, {"x": X}, [loss], scope=built.scope)
        exe.run(built.main.clone(), {"x": X}, [loss], scope=built.scope)
        exe.close()
        exe.close()
    finally:
        global_scope().trainer = None
    assert (used.stopped, unused.stopped) == (1, 0)
    with pytest.raises(NotReadyError, match="^this Executor is closed; make another$"):
        exe.run(built.main, {"x": X}, [loss], scope=built.scope)


def test_the_worker_of_a_scope_may_change_the_operators() -> None:
    built, out = doubled()
    assert (built.run({"x": X}, out)[0] == 2 * X).all()
    built.scope.trainer = Adopting(5.0)  # what was compiled before does not hold any more
    assert (built.run({"x": X}, out)[0] == 5 * X).all()
    assert built.main.global_block().ops[0].attrs["scale"] == 2.0


def test_scopes_hold_what_lasts() -> None:
    built, loss = trained()
    assert set(built.scope.tensors) == {"fc_0.w_0", "fc_0.b_0", "learning_rate_0"}
    built.run({"x": X}, loss)
    built.scope.drop_kids()
    assert len(built.scope.tensors) == 3
    assert built.scope.find_var("nobody") is None
    with pytest.raises(NotReadyError, match="^variable 'nobody' has no value in this scope; run the startup program"):
        np.array(built.scope.var("nobody").get_tensor())
    assert "fc_0.w_0" in built.scope
    found = built.scope.find_var("fc_0.w_0")
    assert found is not None
    before = found.get_tensor().tensor
    found.get_tensor().set(np.full((3, 1), 2, np.float32))
    assert found.get_tensor().tensor is before  # others may hold it
    assert np.array(found.get_tensor()).tolist() == [[2.0]] * 3
    assert found.get_tensor().shape() == [3, 1]
    with scope_guard(built.scope):
        assert global_scope() is built.scope
    assert global_scope() is not built.scope
    with pytest.raises(UsageTypeError, match="^scope must be a Scope, got dict$"), scope_guard({}):  # type: ignore[arg-type]
        pass


def test_programs_of_two_scopes_do_not_meet() -> None:
    (built, loss), exe, other = trained(), Executor(), Scope()
    exe.run(built.startup, scope=other)
    before = other.tensors["fc_0.w_0"].clone()
    exe.run(built.main, {"x": X}, [loss], scope=built.scope)
    assert (other.tensors["fc_0.w_0"] == before).all()
    assert (other.tensors["fc_0.w_0"].numpy() != built["fc_0.w_0"]).all()


def test_places() -> None:
    assert device_of("cpu") == device_of(CPUPlace()) == torch.device("cpu")
    with pytest.raises(UsageError, match=r"^place must be CPUPlace\(\) or CUDAPlace\(index\), got 3$"):
        Executor(3)
    with pytest.raises(UsageError, match=r"^CUDAPlace takes the index of a GPU, from 0, got -1$"):
        CUDAPlace(-1)
    with pytest.raises(UsageError, match=r"^CUDAPlace\(99\): torch sees .*CPUPlace\(\)"):
        Executor(CUDAPlace(99))
