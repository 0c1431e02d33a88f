"""`paddle.jit`: functions that PaddlePaddle would make programs of stay Python here; `save` and `load` trace them."""

from __future__ import annotations

from fleet_paddle.jit.files import TranslatedLayer, load, save
from fleet_paddle.jit.functions import (
    ProgramTranslator,
    StaticFunction,
    not_to_static,
    set_code_level,
    set_verbosity,
    to_static,
)
from fleet_paddle.jit.traced import TracedLayer

__all__ = [
    "ProgramTranslator",
    "StaticFunction",
    "TracedLayer",
    "TranslatedLayer",
    "load",
    "not_to_static",
    "save",
    "set_code_level",
    "set_verbosity",
    "to_static",
]
