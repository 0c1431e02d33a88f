"""`fluid.LoDTensor`: the one class that everything fetched, fed or found in a scope belonged to in PaddlePaddle."""

from __future__ import annotations

import fleet_programs as static
from fleet_programs.executor.lod import Fetched
from fleet_programs.executor.scope import ScopeTensor

_KINDS = (static.LoDTensor, Fetched, ScopeTensor)


class _AnyKind(type):
    """Fleet has a class for each of these; scripts ask `isinstance(value, fluid.core.LoDTensor)` of all of them."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _KINDS)


class LoDTensor(static.LoDTensor, metaclass=_AnyKind):
    """Ragged values, made as in Fleet; what `Executor.run` and scopes give is an instance too."""
