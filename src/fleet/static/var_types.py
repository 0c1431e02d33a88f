"""`VarDesc.VarType`: dtypes and kinds of variables under the names that scripts take from the reference's core."""

from __future__ import annotations


class VarType:
    """Each is the plain name that every `dtype=` takes."""

    BOOL = "bool"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FP16 = "float16"
    BF16 = "bfloat16"
    FP32 = "float32"
    FP64 = "float64"
    LOD_TENSOR = "tensor"
    SELECTED_ROWS = "rows"


class VarDesc:
    """Holds `VarType`."""

    VarType = VarType
