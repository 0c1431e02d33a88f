"""Models of recommenders, one short file each, over `fleet.nn`: their rows live in tables on the servers.

net = fleet.models.DeepFM(num_dense=13, num_slots=26)
model = fleet.distributed_model(net)
loss = net.loss(model(batch), batch)       # batch: fleet.data.Batch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily
from fleet.models.registry import MODELS

if TYPE_CHECKING:
    from fleet.models.dcn import DCN as DCN
    from fleet.models.deepfm import DeepFM as DeepFM
    from fleet.models.dien import DIEN as DIEN
    from fleet.models.din import DIN as DIN
    from fleet.models.dlrm import DLRM as DLRM
    from fleet.models.dnn import DNN as DNN
    from fleet.models.esmm import ESMM as ESMM
    from fleet.models.finalnet import FinalNet as FinalNet
    from fleet.models.hstu import HSTU as HSTU
    from fleet.models.mmoe import MMoE as MMoE
    from fleet.models.parts.base import Recommender as Recommender
    from fleet.models.parts.features import Features as Features
    from fleet.models.parts.features import Tabular as Tabular
    from fleet.models.ple import PLE as PLE
    from fleet.models.registry import NAMES as NAMES
    from fleet.models.registry import build as build
    from fleet.models.sasrec import SASRec as SASRec
    from fleet.models.simnet_bow import SimNetBOW as SimNetBOW
    from fleet.models.two_tower import TwoTower as TwoTower
    from fleet.models.wide_deep import WideDeep as WideDeep
    from fleet.models.word2vec import Word2Vec as Word2Vec
    from fleet.models.xdeepfm import XDeepFM as XDeepFM

_HOMES = {
    **{file: title for file, (title, _) in MODELS.items()},
    "parts.base": "Recommender",
    "parts.features": "Features Tabular",
    "registry": "NAMES build",
}

if not TYPE_CHECKING:  # a checker that saw __all__ would take what is imported above for private
    __getattr__, __dir__, __all__ = lazily(__name__, _HOMES)
