"""Lookups: shapes, padding, dense and sparse gradients, and ids that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import NotReadyError, UsageError
from fleet_programs.backward.backward import append_backward, gradients
from fleet_programs.executor.executor import Executor
from fleet_programs.kernel.rows import Rows
from fleet_programs.layers.io import data, fed
from fleet_programs.layers.lookup import embedding, embedding_v2
from fleet_programs.layers.nn import fc
from fleet_programs.layers.table import mean
from program_support.programs import Built, building
from program_support.static_ops import check, normal

IDS = np.array([3, 1, 3, 0])


def table(ids: Any, padding: int | None) -> Any:
    def reference(_: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows = functional.embedding(torch.from_numpy(ids), weight, padding)
        return rows if padding is None else rows * torch.from_numpy(ids != padding).unsqueeze(-1)

    return reference


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("shape", [(4, 1), (2, 2), (2, 2, 1)])
def test_lookup_with_a_dense_gradient(shape: tuple[int, ...], padding: int | None) -> None:
    ids = IDS.reshape(shape)
    flat = ids.squeeze(-1) if shape[-1] == 1 else ids
    built = check(
        lambda ids: embedding(ids, [5, 2], padding_idx=padding, dtype="float64"), {"ids": ids}, table(flat, padding)
    )
    assert built.main.global_block().ops[0].type == ("lookup_table" if shape[-1] == 1 else "lookup_table_v2")


def test_lookup_that_drops_nothing() -> None:
    ids = IDS.reshape(4, 1)
    built = check(lambda ids: embedding_v2(ids, [5, 2], dtype="float64"), {"ids": ids}, table(ids, None))
    assert built.main.global_block().ops[0].type == "lookup_table_v2"


def run_sparse(padding: int | None, ids: Any = IDS) -> tuple[Built, Rows, Any]:
    with building() as built:
        out = embedding(fed("ids", [-1, 1], "int64"), [5, 2], is_sparse=True, padding_idx=padding)
        (slope,) = gradients(out, built.main.global_block().var("embedding_0.w_0"), fed("seed", [-1, 2]))
    assert slope is not None
    assert (slope.kind, slope.shape) == ("rows", (5, 2))
    built.start()
    seed = normal(4, 2).astype(np.float32)
    feed = {"ids": ids.reshape(4, 1), "seed": seed}
    (found,) = Executor().run(built.main, feed, [slope], scope=built.scope, return_numpy=False)
    assert isinstance(found, Rows)
    return built, found, seed


def test_a_sparse_gradient_has_the_rows_of_the_batch() -> None:
    _, found, seed = run_sparse(None)
    assert (found.index.tolist(), found.height) == (IDS.tolist(), 5)
    assert (found.values.numpy() == seed).all()
    np.testing.assert_allclose(found.merged().values[-1], seed[0] + seed[2], rtol=1e-6)


def test_padding_has_no_part_in_a_sparse_gradient() -> None:
    _, found, seed = run_sparse(-2)
    assert found.index.tolist() == [1, 0]
    assert (found.values.numpy() == seed[[1, 3]]).all()


def test_a_table_that_is_used_twice_has_one_sparse_gradient() -> None:
    with building() as built:
        ids = fed("ids", [-1, 1], "int64")
        left, right = (embedding(ids, [5, 2], is_sparse=True, param_attr="shared") for _ in range(2))
        pairs = append_backward(mean(fc([left, right], 1, param_attr=[None, None])))
    assert [parameter.name for parameter, _ in pairs] == ["shared", "fc_0.w_0", "fc_0.w_1", "fc_0.b_0"]
    assert pairs[0][1].kind == "rows"
    built.start()
    (found,) = Executor().run(built.main, {"ids": IDS[:, None]}, [pairs[0][1]], scope=built.scope, return_numpy=False)
    assert found.index.tolist() == [*IDS, *IDS]


def test_ragged_ids_stay_ragged() -> None:
    with building():
        out = embedding(data("words", [1], dtype="int64", lod_level=1), [5, 2])
    assert (out.name, out.shape, out.lod) == ("embedding_0.tmp_0", (-1, 2), "words@LOD")


def test_an_id_that_is_not_there_is_named() -> None:
    with building() as built:
        out = embedding(fed("ids", [-1, 1], "int64"), [5, 2], padding_idx=0)
    built.start()
    for wrong in (5, -1):
        with pytest.raises(UsageError, match=f"id {wrong} is not in table 'embedding_0.w_0', whose ids are 0 to 4"):
            built.run({"ids": np.array([[1], [wrong]])}, out)


def test_a_distributed_table_needs_servers() -> None:
    with building() as built:
        out = embedding(fed("ids", [-1, 1], "int64"), [5, 2], is_sparse=True, is_distributed=True)
        assert built.main.all_parameters()[0].is_distributed
    with pytest.raises(
        NotReadyError, match="'embedding_0.w_0' is distributed and needs servers: transpile the program"
    ):
        built.run({"ids": np.array([[1]])}, out)


def test_bad_input() -> None:
    with building():
        ids = fed("ids", [-1, 1], "int64")
        with pytest.raises(
            UsageError, match=r"test_embedding.py:\d+: lookup_table: Ids 'x' must be int32 or int64, got"
        ):
            embedding(fed("x", [-1, 1]), [5, 2])
        with pytest.raises(UsageError, match=r"size must be \[number of ids, width\], got \[5\]"):
            embedding(ids, [5])
        with pytest.raises(UsageError, match="padding_idx must be from -5 to 4, got 5"):
            embedding(ids, [5, 2], padding_idx=5)
        with pytest.raises(UsageError, match="dtype must be a float, got int64"):
            embedding(ids, [5, 2], dtype="int64")
