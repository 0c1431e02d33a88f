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
    from fleet.models.dien import DIEN
    from fleet.models.din import DIN
    from fleet.models.dnn import DNN
    from fleet.models.hstu import HSTU
    from fleet.models.sasrec import SASRec
    from fleet.models.simnet_bow import SimNetBOW
    from fleet.models.two_tower import TwoTower
    from fleet.models.word2vec import Word2Vec

_HOMES = {
    "Word2Vec": "word2vec",
    "TwoTower": "two_tower",
    "SimNetBOW": "simnet_bow",
    "SASRec": "sasrec",
    "HSTU": "hstu",
    "DIN": "din",
    "DIEN": "dien",
    "DNN": "dnn",
    "Recommender": "base",
}

__all__ = [
    "DIEN",
    "DIN",
    "DNN",
    "HSTU",
    "Recommender",
    "SASRec",
    "SimNetBOW",
    "TwoTower",
    "Word2Vec",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES)
