"""Models of recommenders, one short file each, over `fleet.nn`: their rows live in tables on the servers.

net = fleet.models.DeepFM(num_dense=13, num_slots=26)
model = fleet.distributed_model(net)
loss = net.loss(model(batch), batch)       # batch: fleet.data.Batch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.models.base import Recommender
    from fleet.models.dnn import DNN

_HOMES = {
    "DNN": "dnn",
    "Recommender": "base",
}

__all__ = [
    "DNN",
    "Recommender",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES)
