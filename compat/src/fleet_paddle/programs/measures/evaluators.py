"""Measures that a program adds up by itself, as scripts of 1.5 and before have them; `metrics` are the newer ones.

evaluator = ChunkEvaluator(tags, label, "IOB", 3)
for one_pass in ...:
    evaluator.reset(exe)
    for batch in ...:
        exe.run(feed=batch, fetch_list=evaluator.metrics)
    precision, recall, f1 = evaluator.eval(exe)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet.errors import NotReadyError
from fleet_paddle.programs.layers.ragged.aligned import edit_distance
from fleet_paddle.programs.layers.ragged.tagging import chunk_eval
from fleet_paddle.programs.measures.text_metrics import ChunkEvaluator as Chunks
from fleet_paddle.programs.measures.text_metrics import EditDistance as Distances
from fleet_programs import layers
from fleet_programs.executor.scope import global_scope
from fleet_programs.optimizer.moving_average import kept
from fleet_programs.program.variable import Variable

__all__ = ["ChunkEvaluator", "EditDistance"]


class Evaluator:
    """Counts that every run of the default program adds to; `metrics` are the values of a batch, to be fetched."""

    def __init__(self, counts: dict[str, Variable], metrics: Sequence[Variable]) -> None:
        self.metrics = list(metrics)
        self.states: list[Variable] = []
        for stem, count in counts.items():
            total = kept(stem, [1], 0.0, count.dtype)
            layers.assign(layers.elementwise_add(total, count), total)
            self.states.append(total)

    def reset(self, executor: Any, reset_program: Any = None) -> None:  # noqa: ARG002 - values are in the scope
        """Begin to count anew."""
        for value in self._values():
            value.zero_()

    def _values(self) -> list[Any]:
        tensors = global_scope().tensors
        if any(one.name not in tensors for one in self.states):
            raise NotReadyError(f"{type(self).__name__}: there are no counts yet; run the startup program first")
        return [tensors[one.name] for one in self.states]


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of chunks; the arguments are those of `layers.chunk_eval`."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Sequence[int] | None = None,
    ) -> None:
        *metrics, found, wanted, right = chunk_eval(input, label, chunk_scheme, num_chunk_types, excluded_chunk_types)
        counts = {"num_infer_chunks": found, "num_label_chunks": wanted, "num_correct_chunks": right}
        super().__init__(counts, metrics)

    def eval(self, executor: Any, eval_program: Any = None) -> tuple[Any, Any, Any]:  # noqa: ARG002
        """Of all batches since `reset`, an array of one number each."""
        metric = Chunks()
        metric.update(*[value.item() for value in self._values()])
        precision, recall, f1 = (np.array([one], np.float32) for one in metric.eval())
        return precision, recall, f1


class EditDistance(Evaluator):
    """How far recognised texts are from labels; `ignored_tokens` are ids that do not count."""

    def __init__(self, input: Variable, label: Variable, ignored_tokens: Sequence[int] | None = None) -> None:
        distances, number = edit_distance(input, label, ignored_tokens=ignored_tokens)
        wrong = layers.reduce_sum(
            layers.cast(layers.greater_than(distances, layers.fill_constant([1], "float32", 0.0)), "int64")
        )
        total, count = layers.reduce_sum(distances), layers.cast(number, "float32")
        metrics = [layers.elementwise_div(one, count) for one in (total, layers.cast(wrong, "float32"))]
        super().__init__({"total_distance": total, "seq_num": number, "instance_error": wrong}, metrics)

    def eval(self, executor: Any, eval_program: Any = None) -> tuple[Any, Any]:  # noqa: ARG002
        """(the mean distance, the share of texts with any) of all batches since `reset`."""
        total, number, wrong = (value.item() for value in self._values())
        metric = Distances()
        metric.total_distance, metric.seq_num, metric.instance_error = total, number, wrong
        mean, share = (np.array([one], np.float32) for one in metric.eval())
        return mean, share
