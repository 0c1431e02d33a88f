"""SimNet-BOW: a query is nearer to the title that was clicked than to another, as bags of words."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.features import bags_of
from fleet.models.parts.histories import PADDING
from fleet.nn import EmbeddingCollection, Slot
from fleet.ps.job.initializers import Uniform
from fleet.ps.job.named_spec import RuleSpec


class SimNetBOW(Recommender):
    """Slots `query`, `title` and `other`: words, [B, L] with padding 0, or bags (values, offsets).

    Rows of one table are summed, squeezed by softsign, and go through a layer of the query or one of the titles.
    `forward` gives [B, 2]: the cosine of the query with the right title and with the other one. The loss is a hinge:
    the first must be above the second by `margin`.
    """

    def __init__(
        self,
        query: str = "query",
        title: str = "title",
        other: str = "other",
        dim: int = 128,
        out: int = 128,
        margin: float = 0.1,
        rule: RuleSpec | None = None,
    ) -> None:
        super().__init__()
        self.names, self.margin = (query, title, other), margin
        slots = [
            Slot(
                name,
                dim,
                "words",
                "sum",
                rule,
                initializer=Uniform(-0.1, 0.1),
                padding_idx=PADDING,
                include_last_offset=True,
            )
            for name in self.names
        ]
        self.words = EmbeddingCollection(slots)
        self.query_layer, self.title_layer = nn.Linear(dim, out), nn.Linear(dim, out)

    def keys(self, batch: BatchLike) -> Any:
        return bags_of(batch, self.names)

    def forward(self, batch: BatchLike) -> Outputs:
        bags = self.words(self.keys(batch))
        query, title, other = (functional.softsign(bags[name]) for name in self.names)
        asked = self.query_layer(query)
        cosines = [functional.cosine_similarity(asked, self.title_layer(one)) for one in (title, other)]
        return torch.stack(cosines, dim=1)

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        losses = functional.relu(self.margin - outputs[:, 0] + outputs[:, 1])
        return (losses if batch.weight is None else losses * batch.weight.to(losses.device)).mean()

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """By how much the right title is nearer; the share above 0 is the pairwise accuracy."""
        return outputs[:, 0] - outputs[:, 1]
