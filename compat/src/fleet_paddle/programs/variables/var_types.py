"""`VarDesc.VarType`: dtypes and kinds of variables under the names that scripts take from PaddlePaddle's core."""

from __future__ import annotations

import builtins
from typing import Any

from fleet_programs.definition.dtypes import DTYPES
from fleet_programs.definition.kinds import ARRAY, ROWS, SCOPES, TENSOR


class Dtype(str):
    """The plain name of a type, which every `dtype=` takes; equal to torch's own, the type of a tensor."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: Any) -> builtins.bool:
        return str.__eq__(self, other) is True or DTYPES.get(str(self)) is other

    def __ne__(self, other: Any) -> builtins.bool:
        return not self == other


uint8, int8, int16, int32, int64 = (Dtype(name) for name in ("uint8", "int8", "int16", "int32", "int64"))
float16, bfloat16, float32, float64 = (Dtype(name) for name in ("float16", "bfloat16", "float32", "float64"))
bool = Dtype("bool")


class VarType:
    """Types, and the kinds of variables."""

    BOOL = bool
    INT8 = int8
    UINT8 = uint8
    INT16 = int16
    INT32 = int32
    INT64 = int64
    FP16 = float16
    BF16 = bfloat16
    FP32 = float32
    FP64 = float64
    LOD_TENSOR = TENSOR
    SELECTED_ROWS = ROWS
    LOD_TENSOR_ARRAY = ARRAY
    STEP_SCOPES = SCOPES
    # Kinds that no variable has here; scripts name them to leave such variables out.
    FEED_MINIBATCH = "feed_minibatch"
    FETCH_LIST = "fetch_list"
    LOD_RANK_TABLE = "lod_rank_table"
    PLACE_LIST = "place_list"
    RAW = "raw"
    READER = "reader"


class VarDesc:
    """Holds `VarType`."""

    VarType = VarType
