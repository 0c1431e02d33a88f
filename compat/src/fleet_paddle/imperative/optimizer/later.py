"""Arguments that 2.1 and 2.2 added to optimizers: those that change no result, and those that are refused."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError

LATER = "multi_precision=False"
"""What Adam and AdamW take at the end."""

_HALF = (torch.float16, torch.bfloat16)


def settle(kind: str, given: dict[str, Any], parameters: list[Any]) -> None:
    """Take them out of an optimizer's arguments; NotSupportedError for one that asks for something else.

    `multi_precision` is about weights of 16 bits, and those of the mixed precision here have 32 anyway;
    `use_multi_tensor` says how to compute the same, which torch decides.
    """
    given.pop("use_multi_tensor", None)
    if given.pop("multi_precision", False) and any(getattr(one, "dtype", None) in _HALF for one in parameters):
        raise NotSupportedError(
            f"{kind}: multi_precision needs weights of 32 bits; leave them so and use paddle.amp.auto_cast"
        )
    if (scale := given.pop("rescale_grad", 1.0)) != 1.0:
        raise NotSupportedError(f"{kind}: rescale_grad must be 1.0, got {scale}; multiply the loss by it instead")
    if given.pop("lr_ratio", None) is not None:
        raise NotSupportedError(f"{kind}: lr_ratio is not built; give parameters ParamAttr(learning_rate=...)")
