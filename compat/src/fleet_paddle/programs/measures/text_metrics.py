"""Measures of taggers and of recognised texts over many batches: give them the counts that `exe.run` fetched."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.errors import NotReadyError
from fleet_paddle.programs.measures.metrics import MetricBase

__all__ = ["ChunkEvaluator", "EditDistance"]


class ChunkEvaluator(MetricBase):
    """(precision, recall, F1) of chunks, such as names: `update` takes what `layers.chunk_eval` counts in a batch."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.reset()

    def reset(self) -> None:
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:  # type: ignore[override]
        """How many chunks were found, how many there are, and how many of those found are right."""
        self.num_infer_chunks += int(np.sum(num_infer_chunks))
        self.num_label_chunks += int(np.sum(num_label_chunks))
        self.num_correct_chunks += int(np.sum(num_correct_chunks))

    def eval(self) -> tuple[float, float, float]:
        """Zero where there is nothing to divide by."""
        right = self.num_correct_chunks
        precision = right / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = right / self.num_label_chunks if self.num_label_chunks else 0.0
        return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


class EditDistance(MetricBase):
    """(mean distance, share of texts with any): `update` takes what `layers.edit_distance` gives for a batch."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.reset()

    def reset(self) -> None:
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """The distance of each text of a batch, and how many there are."""
        number = int(np.sum(seq_num))
        self.total_distance += float(np.sum(distances))
        self.seq_num += number
        self.instance_error += number - int(np.sum(np.asarray(distances) == 0))

    def eval(self) -> tuple[float, float]:
        if self.seq_num == 0:
            raise NotReadyError(f"{self} has seen no batch since it was made or reset; call update() first")
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num
