"""From ragged to padded and back: sequence_pad, sequence_unpad, sequence_mask."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.programs.ops.ragged.belonging import offsets_of, owners, places
from fleet_programs.definition.dtypes import INTEGERS, canonical, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import lengths, require_offsets


def _infer_pad(infer: Infer) -> None:
    require_offsets(infer)
    x, pad, longest = infer.var("X"), infer.var("PadValue"), infer.attr("padded_length")
    if longest != -1 and longest < 1:
        raise infer.fail(f"padded_length must be >= 1, or -1 for the longest row, got {longest}")
    if pad.dtype != x.dtype or pad.shape not in ((), (1,), x.shape[1:]):
        raise infer.fail(
            f"PadValue {pad.name!r} must be {x.dtype} of shape [1] or {list(x.shape[1:])}, "
            f"got {pad.dtype} {list(pad.shape)}"
        )
    infer.set("Out", (-1, longest, *x.shape[1:]), x.dtype)
    infer.set("Length", (-1,), "int64")


@register(
    "sequence_pad",
    inputs=("X", "PadValue", "Offsets"),
    outputs=("Out", "Length"),
    attrs={"padded_length": -1},
    infer=_infer_pad,
    grad=Grad(needs=("X", "PadValue", "Offsets"), outs=("Out",)),
)
def _sequence_pad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    wanted, name = op.attr("padded_length"), op.input("X")[0]

    def pad(x: torch.Tensor, value: torch.Tensor, offsets: torch.Tensor) -> Any:
        sizes = lengths(offsets)
        longest = int(sizes.max()) if len(sizes) else 0
        if longest > wanted >= 0:
            raise UsageError(f"sequence_pad: a row of {name!r} has {longest} values, and maxlen is {wanted}")
        width = longest if wanted < 0 else wanted
        owner = owners(offsets, len(x))
        filled = value.expand(len(sizes) * width, *x.shape[1:])
        out = filled.index_copy(0, owner * width + places(offsets, owner), x)
        return out.view(len(sizes), width, *x.shape[1:]), sizes

    return pad


def _infer_unpad(infer: Infer) -> None:
    x, sizes = infer.var("X"), infer.var("Length")
    infer.require_dtype("Length", INTEGERS)
    if x.ndim < 2:
        raise infer.fail(f"X {x.name!r} must be [batch, longest, ...], got shape {list(x.shape)}")
    if sizes.shape[1:] not in ((), (1,)):
        raise infer.fail(f"Length {sizes.name!r} must have one number for each row, got shape {list(sizes.shape)}")
    infer.set("OutOffsets", (-1,), "int64")
    row = x.shape[2:] or (1,)  # numbers become a column, as all ragged numbers are
    infer.set("Out", (-1, *row), x.dtype, lod=infer.op.output("OutOffsets")[0])


@register(
    "sequence_unpad",
    inputs=("X", "Length"),
    outputs=("Out", "OutOffsets"),
    infer=_infer_unpad,
    grad=Grad(needs=("X", "Length"), outs=("Out",)),
    calls=Calls("Padded rows cut to their lengths: ragged again.", "sequence_unpad(x, length, name)"),
)
def _sequence_unpad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    name = op.input("X")[0]

    def unpad(x: torch.Tensor, given: torch.Tensor) -> Any:
        sizes = given.reshape(-1).to(torch.int64)
        if len(sizes) and (int(sizes.max()) > x.shape[1] or int(sizes.min()) < 0):
            raise UsageError(
                f"sequence_unpad: lengths must be from 0 to {x.shape[1]}, the longest row of {name!r}, "
                f"got {sizes.tolist()[:8]}"
            )
        inside = torch.arange(x.shape[1], device=x.device) < sizes.unsqueeze(1)
        values = x[inside]
        return values.unsqueeze(1) if values.dim() == 1 else values, offsets_of(sizes)

    return unpad


def _infer_mask(infer: Infer) -> None:
    infer.require_dtype("X", INTEGERS)
    longest = infer.attr("maxlen")
    if longest != -1 and longest < 1:
        raise infer.fail(f"maxlen must be >= 1, or -1 for the greatest length, got {longest}")
    infer.set("Y", (*infer.shape("X"), longest), infer.attr("out_dtype"))


@register(
    "sequence_mask",
    inputs=("X",),
    outputs=("Y",),
    attrs={"maxlen": -1, "out_dtype": "int64"},
    infer=_infer_mask,
    calls=Calls(
        "For each length a row of ones, as many as it says, and then zeros up to `maxlen` or the greatest length.",
        "sequence_mask(x, maxlen=None, dtype='int64', name)",
        to_attrs=lambda given: {"maxlen": given.get("maxlen", -1), "out_dtype": canonical(given["dtype"])},
    ),
)
def _sequence_mask(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    wanted, dtype = op.attr("maxlen"), torch_dtype(op.attr("out_dtype"))

    def mask(x: torch.Tensor) -> torch.Tensor:
        longest = wanted if wanted > 0 else int(x.max()) if x.numel() else 0
        return (torch.arange(longest, device=x.device) < x.unsqueeze(-1)).to(dtype)

    return mask
