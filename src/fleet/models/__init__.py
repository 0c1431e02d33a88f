"""Models of recommenders, one short file each, over `fleet.nn`: their rows live in tables on the servers.

net = fleet.models.DeepFM(num_dense=13, num_slots=26)
model = fleet.distributed_model(net)
loss = net.loss(model(batch), batch)       # batch: fleet.data.Batch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.models.dcn import DCN
    from fleet.models.deepfm import DeepFM
    from fleet.models.dien import DIEN
    from fleet.models.din import DIN
    from fleet.models.dlrm import DLRM
    from fleet.models.dnn import DNN
    from fleet.models.esmm import ESMM
    from fleet.models.finalnet import FinalNet
    from fleet.models.hstu import HSTU
    from fleet.models.mmoe import MMoE
    from fleet.models.parts.base import Recommender
    from fleet.models.parts.features import Features, Tabular
    from fleet.models.ple import PLE
    from fleet.models.registry import NAMES, build
    from fleet.models.sasrec import SASRec
    from fleet.models.simnet_bow import SimNetBOW
    from fleet.models.two_tower import TwoTower
    from fleet.models.wide_deep import WideDeep
    from fleet.models.word2vec import Word2Vec
    from fleet.models.xdeepfm import XDeepFM

_HOMES = {
    "DCN": "dcn",
    "DIEN": "dien",
    "DIN": "din",
    "DLRM": "dlrm",
    "DNN": "dnn",
    "DeepFM": "deepfm",
    "ESMM": "esmm",
    "Features": "parts.features",
    "FinalNet": "finalnet",
    "HSTU": "hstu",
    "MMoE": "mmoe",
    "NAMES": "registry",
    "PLE": "ple",
    "Recommender": "parts.base",
    "SASRec": "sasrec",
    "SimNetBOW": "simnet_bow",
    "Tabular": "parts.features",
    "TwoTower": "two_tower",
    "WideDeep": "wide_deep",
    "Word2Vec": "word2vec",
    "XDeepFM": "xdeepfm",
    "build": "registry",
}

__all__ = [
    "DCN",
    "DIEN",
    "DIN",
    "DLRM",
    "DNN",
    "ESMM",
    "HSTU",
    "NAMES",
    "PLE",
    "DeepFM",
    "Features",
    "FinalNet",
    "MMoE",
    "Recommender",
    "SASRec",
    "SimNetBOW",
    "Tabular",
    "TwoTower",
    "WideDeep",
    "Word2Vec",
    "XDeepFM",
    "build",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES)
