"""Word2vec: skip-gram with negatives. A word's vector tells which words stand around it (Mikolov et al., 2013)."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.histories import matrix
from fleet.nn import EmbeddingCollection, Slot
from fleet.ps.job.initializers import Constant, Uniform
from fleet.ps.job.named_spec import RuleSpec


class Word2Vec(Recommender):
    """A batch's ids are words, [B, 1]. Slot `around` [B, 1 + n] has first one that stands near, then n that do not.

    Table "words" has a vector of `dim` for each word, the result; table "contexts" one for each word as a neighbour,
    with a bias. `forward` gives logits [B, 1 + n], the true neighbour first.
    """

    def __init__(self, dim: int = 100, around: str = "around", rule: RuleSpec | None = None) -> None:
        super().__init__()
        self.around = around
        words = Slot("word", dim, "words", rule=rule, initializer=Uniform(-0.5 / dim, 0.5 / dim))
        contexts = Slot("around", dim + 1, "contexts", rule=rule, initializer=Constant(0.0))
        self.rows = EmbeddingCollection([words, contexts])

    def keys(self, batch: BatchLike) -> Any:
        return {"word": batch.ids, "around": matrix(batch, self.around)}

    def forward(self, batch: BatchLike) -> Outputs:
        rows = self.rows(self.keys(batch))
        word, around = rows["word"], rows["around"]  # [B, 1, dim], [B, 1 + n, dim + 1]
        logits: torch.Tensor = torch.bmm(around[:, :, :-1], word.transpose(1, 2)).squeeze(2) + around[:, :, -1]
        return logits

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        """Is it a neighbour, yes or no, of each of the 1 + n: their sum, a mean over the batch."""
        losses = functional.softplus(-outputs[:, 0]) + functional.softplus(outputs[:, 1:]).sum(1)
        return (losses if batch.weight is None else losses * batch.weight.to(losses.device)).mean()

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """The probability that the true neighbour is one."""
        return torch.sigmoid(outputs[:, 0])
