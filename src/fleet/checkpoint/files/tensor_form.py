"""Type and shape of a tensor, whatever its type: how checkpoints know tensors that are no rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleet.checkpoint.files.fields import Fields, Formed

# The format's name of each type, and the numpy type that holds its bits.
DTYPES: dict[str, tuple[str, str]] = {
    "float64": ("F64", "<f8"), "float32": ("F32", "<f4"), "float16": ("F16", "<f2"), "bfloat16": ("BF16", "<u2"),
    "float8_e4m3fn": ("F8_E4M3", "u1"), "float8_e5m2": ("F8_E5M2", "u1"), "complex64": ("C64", "<u8"),
    "int64": ("I64", "<i8"), "int32": ("I32", "<i4"), "int16": ("I16", "<i2"), "int8": ("I8", "i1"),
    "uint64": ("U64", "<u8"), "uint32": ("U32", "<u4"), "uint16": ("U16", "<u2"), "uint8": ("U8", "u1"),
    "bool": ("BOOL", "u1"),
}  # fmt: skip


@dataclass(frozen=True)
class Form(Formed):
    """Type and shape of a whole tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def code(self) -> str:
        """What safetensors calls the type: `F32`, `BF16`, ..."""
        return DTYPES[self.dtype][0]

    @property
    def bits(self) -> np.dtype[Any]:
        """The numpy type of its elements' bits."""
        return np.dtype(DTYPES[self.dtype][1])

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.choice("dtype", DTYPES)
