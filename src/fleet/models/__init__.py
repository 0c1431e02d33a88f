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
    from fleet.models.dcn import DCN
    from fleet.models.deepfm import DeepFM
    from fleet.models.dlrm import DLRM
    from fleet.models.dnn import DNN
    from fleet.models.esmm import ESMM
    from fleet.models.features import Features, Tabular
    from fleet.models.finalnet import FinalNet
    from fleet.models.mmoe import MMoE
    from fleet.models.ple import PLE
    from fleet.models.registry import NAMES, build
    from fleet.models.wide_deep import WideDeep
    from fleet.models.xdeepfm import XDeepFM

_HOMES = {
    "DCN": "dcn",
    "DLRM": "dlrm",
    "DNN": "dnn",
    "ESMM": "esmm",
    "NAMES": "registry",
    "PLE": "ple",
    "DeepFM": "deepfm",
    "Features": "features",
    "FinalNet": "finalnet",
    "MMoE": "mmoe",
    "Recommender": "base",
    "Tabular": "features",
    "WideDeep": "wide_deep",
    "XDeepFM": "xdeepfm",
    "build": "registry",
}

__all__ = [
    "DCN",
    "DLRM",
    "DNN",
    "ESMM",
    "NAMES",
    "PLE",
    "DeepFM",
    "Features",
    "FinalNet",
    "MMoE",
    "Recommender",
    "Tabular",
    "WideDeep",
    "XDeepFM",
    "build",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES)
