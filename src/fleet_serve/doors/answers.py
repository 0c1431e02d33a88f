"""What is asked of a served model, whatever way the question came: checked, answered from one moment, counted."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fleet.errors import NotReadyError, UsageError
from fleet.ps.wire.budget import in_words
from fleet_serve.columns.raw import ColumnIds, RawColumns
from fleet_serve.rows.model import FoundRows, Keys, ServedModel, ServedVersion

if TYPE_CHECKING:
    from fleet_serve.predict.predictor import Predictor

Array = npt.NDArray[Any]
_NO_SCHEMA = (
    "this model has no schema, which makes ids of columns; send keys, or serve a folder of "
    "fleet.save_inference_model(folder, schema=...)"
)
BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class FollowState:
    """How a model keeps up with its job; one that follows none has no stream."""

    stream: str = ""
    lag_s: float = -1.0
    why_stale: str = ""
    """Why the changes go on only once another base is loaded; empty: they go on."""
    num_batches: int = 0
    num_bases: int = 0
    num_failures: int = 0


@dataclass
class Counts:
    """What was asked so far, by door."""

    answered: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    """By table."""
    unseen: dict[str, int] = field(default_factory=dict)
    took: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """How many lookups took up to each of `BOUNDS_S`, and longer."""
    took_s: float = 0.0
    predicted: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    predict_s: float = 0.0


class Answers:
    """Answers for all doors. The model may be replaced by another at any time: who has begun ends with the old one."""

    def __init__(
        self,
        most_bytes: int,
        *,
        state: Callable[[], FollowState] = FollowState,
        max_lag_s: float | None = None,
        predictor: Predictor | None = None,
    ) -> None:
        self.most_bytes = most_bytes
        self._state = state
        self._max_lag_s = max_lag_s
        self._predictor = predictor
        self._model: ServedModel | None = None
        self._columns: RawColumns | None = None
        self._lock = threading.Lock()
        self.counts = Counts()

    @property
    def state(self) -> FollowState:
        """How the model keeps up."""
        return self._state()

    def serve(self, model: ServedModel) -> None:
        """Answer from this model from now on; one without a schema keeps that of the model before."""
        with self._lock:
            self._model, self._columns = model, model.columns or self._columns

    def serve_first(self, model: ServedModel) -> None:
        """The same, unless another answers already."""
        with self._lock:
            self._model, self._columns = self._model or model, self._columns or model.columns

    @property
    def has_model(self) -> bool:
        """Whether a base has been loaded."""
        return self._model is not None

    def model(self) -> ServedModel:
        """The model that answers now; NotReadyError before the first is loaded."""
        if (model := self._model) is None:
            raise NotReadyError("no model is loaded yet; ask again once /readyz says so")
        return model

    def why_not_ready(self) -> str:
        """Why requests should go to another replica; empty: they may come."""
        state = self._state()
        if self._model is None:
            return f"no model is loaded yet: {state.why_stale}" if state.why_stale else "no model is loaded yet"
        if self._max_lag_s is not None and state.lag_s > self._max_lag_s:
            why = f": {state.why_stale}" if state.why_stale else ""
            return f"{state.lag_s:.1f} s behind the job, over --max_lag {self._max_lag_s:g}{why}"
        return ""

    def lookup(
        self, door: str, wanted: Sequence[tuple[str, Keys | str]], columns: Mapping[str, Sequence[Any]] | None = None
    ) -> tuple[list[FoundRows], ServedVersion]:
        """Rows of any tables, all of one moment; UsageError where they cannot be asked so.

        They are asked for by keys, or by the name of a category: then the keys are what the schema makes of `columns`.
        """
        began_at = time.perf_counter()
        model = self.model()
        made = self._ids({keys for _, keys in wanted if isinstance(keys, str)}, columns or {})
        asked = [(table, made[keys].ids if isinstance(keys, str) else keys) for table, keys in wanted]
        size = sum(len(keys) * 4 * model.table(name).width for name, keys in asked)
        if size > self.most_bytes:
            raise UsageError(
                f"the answer would have {in_words(size)}, over the limit of {in_words(self.most_bytes)}; ask for fewer "
                "keys at a time, or raise --max_bytes of the server"
            )
        rows, version = model.lookup(asked)
        took_s = time.perf_counter() - began_at
        with self._lock:
            counts = self.counts
            counts.answered[door] = counts.answered.get(door, 0) + 1
            for one in rows:
                counts.keys[one.table] = counts.keys.get(one.table, 0) + len(one.rows)
                counts.unseen[one.table] = counts.unseen.get(one.table, 0) + one.num_unseen
            counts.took[bisect_left(BOUNDS_S, took_s)] += 1
            counts.took_s += took_s
        of_columns = (made[keys].offsets if isinstance(keys, str) else None for _, keys in wanted)
        return [one._replace(offsets=offsets) for one, offsets in zip(rows, of_columns, strict=True)], version

    def _ids(self, names: set[str], columns: Mapping[str, Sequence[Any]]) -> dict[str, ColumnIds]:
        if not names and not columns:
            return {}
        if self._columns is None:
            raise UsageError(_NO_SCHEMA)
        return self._columns.ids(columns, names)

    def input_type(self, name: str) -> np.dtype[Any]:
        """What an input of the program is; UsageError where there is no program, or no such input."""
        inputs = self._program().inputs
        if name not in inputs:
            raise UsageError(f"the program has no input {name!r}; send {', '.join(map(repr, inputs))}")
        return inputs[name][0]

    def _program(self) -> Predictor:
        if self._predictor is None:
            raise UsageError(
                "this server has no program for predictions; start it with --predict FILE, or look up rows"
            )
        return self._predictor

    def predict(
        self, door: str, inputs: Mapping[str, Array], columns: Mapping[str, Sequence[Any]] | None = None
    ) -> tuple[dict[str, Array], ServedVersion]:
        """What the model makes of a batch, all of one moment; inputs that are not there are made of columns."""
        began_at = time.perf_counter()
        program, model, given = self._program(), self.model(), dict(inputs)
        if columns:
            if self._columns is None:
                raise UsageError(_NO_SCHEMA)
            given |= self._columns.inputs(columns, [name for name in program.inputs if name not in inputs])
        found, version = program.predict(model, given)
        if (size := sum(one.nbytes for one in found.values())) > self.most_bytes:
            raise UsageError(
                f"the answer would have {in_words(size)}, over the limit of {in_words(self.most_bytes)}; send fewer "
                "samples at a time, or raise --max_bytes of the server"
            )
        with self._lock:
            counts = self.counts
            counts.predicted[door] = counts.predicted.get(door, 0) + 1
            counts.samples += len(next(iter(given.values())))
            counts.predict_s += time.perf_counter() - began_at
        return found, version

    def refused(self, door: str) -> None:
        """Count a request that was refused."""
        with self._lock:
            self.counts.refused[door] = self.counts.refused.get(door, 0) + 1
