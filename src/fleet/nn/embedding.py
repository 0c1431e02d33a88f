"""`fleet.nn.Embedding`: an embedding without a vocabulary, its rows in a table on the servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from fleet.errors import UsageError
from fleet.nn.pooling import Pooling, check_pooling, pool
from fleet.nn.sparse import (
    DEFAULT_INITIALIZER,
    SparseModule,
    TableRequest,
    Wire,
    checked_cache,
    checked_ids,
    checked_padding,
)
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.staging import upload
from fleet.ps.worker.asking.given_rows import given_rows
from fleet.ps.worker.asking.lookup import Request


class Embedding(SparseModule):
    """Rows of `embedding_dim` floats for arbitrary int64 ids; a row exists once its id was trained.

    `table` names the table; modules that name the same one share it. `rule` says how gradients change rows (see
    `fleet.rules`); without it the table follows the optimizer that has this module's parameters. `pooling` "none"
    gives one row per id, [*ids.shape, dim]; "sum" and "mean" pool the last dimension of 2-D ids, or the bags that
    `offsets` cut from 1-D ids, as `torch.nn.EmbeddingBag` does.

    `unseen` says what an id without a row is where rows are only read, in evaluation and in serving: "zeros", or
    "initial", the value that it would begin with. `padding_idx`, `max_norm`, `norm_type` and `include_last_offset` are
    those of torch; `padding_idx` is an id like any other, so -1 means the id -1.

    `wire` says how rows and their gradients travel between worker and servers, "float32", "bfloat16", "float16" or
    "int8", or as a pair what rows do and what gradients do; without it `strategy.wire_configs` decides.

    `memory` is what the table may take of each server's memory, such as "4GiB": rows that do not fit lie on its disk,
    in the folder FLEET_TABLE_DIR (docs/large_tables.md). Without it all rows are in memory.

    `cache="gpu"` keeps `cache_rows` rows, those that are used most, where the model is, and trains them there: for one
    worker whose tables are in its own process (docs/gpu.md). Training is the same, bit by bit.

        embedding = fleet.nn.Embedding(16, table="ads", rule=fleet.rules.Adagrad(lr=0.05))
        rows = embedding(torch.tensor([[3, -7, 2**60]]))        # [1, 3, 16]
    """

    def __init__(
        self,
        embedding_dim: int,
        table: str | None = None,
        *,
        rule: RuleSpec | None = None,
        initializer: InitializerSpec = DEFAULT_INITIALIZER,
        entry: EntrySpec | None = None,
        pooling: Pooling = "none",
        dtype: str = "float32",
        bounds: tuple[float, float] | None = None,
        max_bytes: int = 0,
        seed: int = 0,
        unseen: str = "zeros",
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        include_last_offset: bool = False,
        wire: Wire = None,
        memory: int | str = 0,
        cache: str | None = None,
        cache_rows: int = 0,
    ) -> None:
        if isinstance(table, int):
            raise UsageError(
                f"fleet.nn.Embedding({embedding_dim}, {table}): it has no vocabulary, for any int64 is an id; give the "
                f"width alone: fleet.nn.Embedding({table})"
            )
        request = TableRequest(
            table,
            embedding_dim,
            rule,
            initializer,
            entry or AlwaysEntry(),
            dtype,
            bounds,
            max_bytes,
            seed,
            unseen,
            max_norm,
            norm_type,
            wire,
            memory,
            checked_cache(cache, cache_rows),
        )
        check_pooling("embedding", pooling, include_last_offset)
        super().__init__(embedding_dim)
        self.embedding_dim = embedding_dim
        self.pooling = pooling
        self.padding_idx = checked_padding(padding_idx)
        self.include_last_offset = include_last_offset
        self._request = request

    @classmethod
    def from_pretrained(
        cls,
        embeddings: torch.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        *,
        keys: torch.Tensor | None = None,
        table: str | None = None,
        **others: Any,
    ) -> Self:
        """An embedding whose table begins with these rows, [num, dim]: those of ids 0, 1, 2 ..., or of `keys`.

        As torch's, it is frozen by default. `fleet.init_worker()` sends the rows of worker 0 to the servers, once in a
        job: not where they begin with a checkpoint, and not when a worker is started again. Any other int64 is an id
        too, without a row as yet. `others` are arguments of the class, such as `rule`.

            embedding = fleet.nn.Embedding.from_pretrained(vectors, freeze=False, rule=fleet.rules.Adagrad(lr=0.05))
        """
        rows = given_rows(f"{cls.__name__}.from_pretrained()", keys, embeddings, padding=padding_idx)
        width = rows.values.shape[1]
        made = cls(width, table, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type, **others)
        made.first_rows = rows
        made.weight.requires_grad_(not freeze)
        return made

    def table_requests(self) -> Sequence[TableRequest]:
        return [self._request]

    def requests(self, inputs: Any) -> list[Request]:
        ids, _, show, click = _unpack(inputs)
        paddings = () if self.padding_idx is None else (self.padding_idx,)
        return [Request(self.tables[0], (checked_ids(ids, "ids"),), show, click, not self.has_grad, paddings)]

    def forward(
        self,
        ids: torch.Tensor,
        offsets: torch.Tensor | None = None,
        show: torch.Tensor | None = None,
        click: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Look up ids. `show` and `click`, per id, feed a table with ShowClickEntry.

        `per_sample_weights`, one for each id, multiply the rows before they are summed: for pooling "sum".

        The result is on the device of the model's parameters; ids and offsets may lie there or in host memory, where
        the keys are needed first.
        """
        if not self.tables:
            _ = self.worker  # says what to do
        (found,) = self.look_up(self.requests((ids, offsets, show, click)))
        device = found.rows.device
        return pool(
            found.rows,
            found.inverse.view(ids.shape),
            None if offsets is None else upload(offsets, device),
            self.pooling,
            self.include_last_offset and offsets is not None,
            weights=None if per_sample_weights is None else upload(per_sample_weights, device),
            padding_row=found.padding_row,
        )

    def extra_repr(self) -> str:
        name = "" if self._request.name is None else f", table={self._request.name!r}"
        rule = "" if self._request.rule is None else f", rule={self._request.rule}"
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.embedding_dim}{name}{rule}, pooling={self.pooling!r}{padding}"


def _unpack(inputs: Any) -> tuple[Any, Any, Any, Any]:
    """Ids alone, or the arguments of `forward` as a tuple or a mapping."""
    if isinstance(inputs, dict):
        return inputs["ids"], inputs.get("offsets"), inputs.get("show"), inputs.get("click")
    if isinstance(inputs, tuple | list):
        ids, offsets, show, click = (*inputs, None, None, None)[:4]
        return ids, offsets, show, click
    return inputs, None, None, None
