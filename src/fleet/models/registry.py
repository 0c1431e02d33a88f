"""Models by name, for scripts that take one as an option.

net = fleet.models.build("deepfm", num_dense=13, num_slots=26)
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError, UsageTypeError

if TYPE_CHECKING:
    from fleet.models.parts.base import Recommender

# name, which is that of its file: (class, what it is)
MODELS = {
    "dnn": ("DNN", "rows and numbers through a few layers"),
    "wide_deep": ("WideDeep", "a linear model and a DNN"),
    "deepfm": ("DeepFM", "a factorisation machine and a DNN"),
    "xdeepfm": ("XDeepFM", "explicit interactions (CIN), a linear model and a DNN"),
    "dcn": ("DCN", "DCNv2: cross layers and a DNN"),
    "dlrm": ("DLRM", "dot products of all pairs of rows"),
    "finalnet": ("FinalNet", "factorised layers in two streams"),
    "din": ("DIN", "of a user's history, what matters for the item"),
    "dien": ("DIEN", "how a user's interests move towards the item"),
    "mmoe": ("MMoE", "several tasks: shared experts, a gate for each task"),
    "ple": ("PLE", "several tasks: shared experts and experts of each task, in levels"),
    "esmm": ("ESMM", "clicks and conversions over everything that was shown"),
    "two_tower": ("TwoTower", "users and items meet in a dot product: retrieval"),
    "sasrec": ("SASRec", "the next item, by self-attention"),
    "hstu": ("HSTU", "the next item, by gated attention that knows the time"),
    "simnet_bow": ("SimNetBOW", "queries and titles as bags of words"),
    "word2vec": ("Word2Vec", "vectors of words, from those that stand around them"),
}

NAMES = {name: about for name, (_, about) in MODELS.items()}
"""What `build` knows, with a line about each."""


def class_of(name: str) -> type[Recommender]:
    """The class of the model of that name; UsageError if there is none."""
    if name not in MODELS:
        near = get_close_matches(str(name), MODELS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(MODELS)}"
        raise UsageError(f"no model is called {name!r}; {hint}")
    found: type[Recommender] = getattr(import_module(f"fleet.models.{name}"), MODELS[name][0])
    return found


def build(name: str, **settings: Any) -> Recommender:
    """The model of that name, made with `settings`: the arguments of its class."""
    cls = class_of(name)
    known = signature(cls).parameters
    if wrong := [one for one in settings if one not in known]:
        raise UsageTypeError(f"model {name!r} has no setting {wrong[0]!r}; it has {', '.join(known)}")
    needed = [one for one, its in known.items() if its.default is its.empty and one not in settings]
    if needed:
        raise UsageTypeError(f"model {name!r} needs {', '.join(needed)}")
    return cls(**settings)
