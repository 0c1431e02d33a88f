"""Operators of click models: counts of shows and clicks beside embeddings, a loss that a teacher helps, hashed ids."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from fleet_paddle.programs.ops.clicked.xxhash import xxh64
from fleet_paddle.programs.ops.ragged.belonging import owners
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared, same_dtype, same_shape
from fleet_programs.operators.common.segments import require_offsets

COUNTS = 2
"""The first columns of X: how often it was shown, and clicked."""


def _infer_cvm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    same_dtype(infer, "X", "CVM")
    x, counts = infer.var("X"), infer.var("CVM")
    if x.shape[1] <= COUNTS or counts.shape[1:] != (COUNTS,):
        raise infer.fail(
            f"X {x.name!r} must have more than {COUNTS} columns and CVM be [rows, {COUNTS}], got {list(x.shape)} and "
            f"{list(counts.shape)}"
        )
    if infer.has("Offsets"):
        require_offsets(infer)
    infer.set("Y", (x.shape[0], x.shape[1] - (0 if infer.attr("use_cvm") else COUNTS)), x.dtype, lod=x.lod)


@register(
    "cvm",
    inputs=("X", "CVM", "Offsets?"),
    outputs=("Y",),
    attrs={"use_cvm": True},
    infer=_infer_cvm,
    grad=Grad(needs=("CVM", "Offsets")),
    calls=Calls(
        """Embeddings [rows, 2 + width] that begin with counts: log(shows + 1) and log of the ratio of clicks to shows.

    Without `use_cvm` the counts are left out. `cvm` is [rows, 2], the shows and clicks of this batch, which the first
    two columns get as their gradient; of a ragged `input` it has one row for each row.
    """,
        "continuous_value_model(input, cvm, use_cvm=True)",
    ),
)
def _cvm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def with_counts(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        shows = (x[:, :1] + 1).log()
        return torch.cat([shows, (x[:, 1:2] + 1).log() - shows, x[:, COUNTS:]], 1)

    return with_counts if op.attr("use_cvm") else lambda x, *_: x[:, COUNTS:].clone()


@register_grad("cvm")
def _cvm_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """The first columns get the counts themselves: whoever updates the rows adds them to what it keeps."""
    skipped = COUNTS if op.attr("use_cvm") else 0

    def gradient(counts: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        grad = given[-1]
        own = counts.index_select(0, owners(given[0], len(grad))) if len(given) > 1 else counts
        return torch.cat([own, grad[:, skipped:]], 1)

    return gradient


def _infer_teacher(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    same_dtype(infer, "X", "Label")
    same_shape(infer, "X", "Label")
    if infer.shape("X")[1:] != (1,):
        raise infer.fail(f"X must have shape [rows, 1], got {list(infer.shape('X'))}")
    infer.like("Y", "X")


@register(
    "teacher_student_sigmoid_loss",
    inputs=("X", "Label"),
    outputs=("Y",),
    attrs={"soft_max_up_bound": 15.0, "soft_max_lower_bound": -15.0},
    infer=_infer_teacher,
    grad=Grad(needs=("X", "Label"), wrt=("X",)),
    calls=Calls(
        """The cross entropy of a click, and that of a teacher's probability where there is one.

    A `label` of -2 is no click, -1 a click, both without a teacher; with one it is the teacher's probability, plus 1
    for a click. Logits outside the bounds have no gradient.
    """,
        "teacher_student_sigmoid_loss(input, label, soft_max_up_bound=15.0, soft_max_lower_bound=-15.0)",
    ),
)
def _teacher(op: Operator, lowering: Lowering) -> Kernel:
    def loss(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        entropy = functional.softplus(x, threshold=1e9)
        return torch.where(label < 0, entropy - x * (label >= -1), 2 * entropy - x * label)

    return compared(loss, op, lowering)


@register_grad("teacher_student_sigmoid_loss")
def _teacher_grad(op: Operator, lowering: Lowering) -> Kernel:
    high, low = op.attr("soft_max_up_bound"), op.attr("soft_max_lower_bound")

    def gradient(x: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        probability = x.sigmoid()
        slope = torch.where(label < 0, probability - (label >= -1).to(x.dtype), 2 * probability - label)
        return (slope * grad).masked_fill_((x > high) | (x < low), 0)

    return compared(gradient, op, lowering, "X", "Label")


def _infer_hash(infer: Infer) -> None:
    infer.require_dtype("X", frozenset({"int64", "int32"}))
    infer.require_rank("X", 2)
    if infer.attr("mod_by") < 1 or infer.attr("num_hash") < 1:
        raise infer.fail(f"hash_size and num_hash must be >= 1, got {infer.attr('mod_by')}, {infer.attr('num_hash')}")
    x = infer.var("X")
    infer.set("Out", (x.shape[0], infer.attr("num_hash"), 1), x.dtype, lod=x.lod)


@register(
    "hash",
    inputs=("X",),
    attrs={"mod_by": 1, "num_hash": 1},
    infer=_infer_hash,
    calls=Calls(
        "For each row of ids its xxHash with seeds 0, 1, ..., modulo `hash_size`: [rows, num_hash, 1].",
        "hash(input, hash_size->mod_by, num_hash=1, name)",
    ),
)
def _hash(op: Operator, lowering: Lowering) -> Kernel:
    size, count = np.uint64(op.attr("mod_by")), op.attr("num_hash")

    def hashed(x: torch.Tensor) -> torch.Tensor:
        rows = np.ascontiguousarray(x.numpy(force=True)).view(np.uint8).reshape(len(x), -1)
        found = np.stack([xxh64(rows, seed) % size for seed in range(count)], 1)
        return torch.from_numpy(found.astype(np.int64)).to(lowering.device, x.dtype).unsqueeze(2)

    return hashed
