"""The types of a program's values: one plain name each, whatever spelling they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})

_SPELLINGS = {
    **{name: name for name in DTYPES},
    **{str(dtype): name for name, dtype in DTYPES.items()},
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "fp32": "float32",
    "fp16": "float16",
}


def canonical(dtype: Any) -> str:
    """The plain name of a dtype given as text, as torch's or as numpy's.

    >>> canonical(np.float32), canonical(torch.int64), canonical("float64")
    ('float32', 'int64', 'float64')
    """
    text = dtype if isinstance(dtype, str) else str(dtype)
    name = _SPELLINGS.get(text)
    if name is None:
        try:
            name = _SPELLINGS.get(np.dtype(dtype).name)
        except TypeError:
            name = None
    if name is None:
        raise UsageError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return name


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype of a plain name."""
    return DTYPES[name]
