"""Operators that only the Executor makes, out of patterns of others; see `executor.fuse`."""

from __future__ import annotations

import torch

from fleet import _native
from fleet.errors import UsageError
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.networks.loss import bound, with_classes


@register("fused_fc", inputs=("X", "Y", "Bias"), attrs={"act": "", "is_native": False, "x_num_col_dims": 1})
def _fused_fc(op: Operator, lowering: Lowering) -> Kernel:
    """The first `x_num_col_dims` dimensions of X are rows, those after them columns."""
    kernel, cut = _fc_of_matrices(op), op.attr("x_num_col_dims")
    if len(lowering.shape(op.input("X")[0])) == 2:
        return kernel

    def run(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = kernel(x.flatten(0, cut - 1).flatten(1), y, bias)
        return out.view(*x.shape[:cut], y.shape[1])

    return run


def _fc_of_matrices(op: Operator) -> Kernel:
    addmm, act = torch.addmm, op.attr("act")
    if act == "tanh" and op.attr("is_native"):
        return _fc_tanh
    if act == "":
        return lambda x, y, bias: addmm(bias, x, y)
    in_place = {"relu": torch.relu_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_}[act]
    return lambda x, y, bias: in_place(addmm(bias, x, y))


def _fc_tanh(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """torch's tanh takes as long as the product before it; the native one a fraction of that."""
    out = torch.mm(x, y)
    _native.add_bias_and_tanh(out.numpy(), bias.numpy())
    return out


@register("fused_mean_loss", inputs=("X", "Label"), attrs={"ignore_index": -100})
def _fused_mean_loss(op: Operator, lowering: Lowering) -> Kernel:
    ignored, least = op.attr("ignore_index"), -bound(lowering.dtype(op.input("X")[0]))

    def plain(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return x.gather(1, label.long()).log_().clamp_min_(least).mean(0).neg_()

    def masked(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        counts = label.ne(ignored)
        picked = x.gather(1, (label * counts).long()).log_().clamp_min_(least)
        return picked.masked_fill_(~counts, 0).mean(0).neg_()

    return _plain_or_masked(plain, masked, op, lowering)


@register(
    "fused_softmax_loss_grad",
    inputs=("X", "Label", "Y@GRAD?"),
    outputs=("X@GRAD",),
    attrs={"ignore_index": -100, "mean_grad": 0.0},
)
def _fused_softmax_loss_grad(op: Operator, lowering: Lowering) -> Kernel:
    """Without the gradient of each row it is the same for all: `mean_grad` divided by their number."""
    ignored, constant = op.attr("ignore_index"), op.attr("mean_grad")

    def plain(x: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return (x * grad).scatter_add_(1, label.long(), -grad)

    def masked(x: torch.Tensor, label: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        counts = label.ne(ignored)
        grad = grad * counts
        return (x * grad).scatter_add_(1, (label * counts).long(), -grad)

    if op.input("Y@GRAD"):
        return _plain_or_masked(plain, masked, op, lowering)

    filled = _Filled()

    def plain_mean(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        share = constant / max(len(x), 1)
        scaled: torch.Tensor = x * share
        return scaled.scatter_add_(1, label.long(), filled.get(len(x), -share, x.dtype).unsqueeze(1))

    def masked_mean(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        share = constant / max(len(x), 1)
        return masked(x, label, torch.full((len(x), 1), share, dtype=x.dtype, device=x.device))

    return _plain_or_masked(plain_mean, masked_mean, op, lowering)


def _plain_or_masked(plain: Kernel, masked: Kernel, op: Operator, lowering: Lowering) -> Kernel:
    """Labels to be ignored are rare, and on the CPU found when they name no column."""
    checked = with_classes(masked, op)
    if lowering.device.type != "cpu" or lowering.is_handed_on or op.attr("ignore_index") >= 0:
        return _with_as_many_labels(checked)

    kernel = plain

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        nonlocal kernel
        try:
            made: torch.Tensor = kernel(*tensors)
        except (RuntimeError, IndexError):
            made = checked(*tensors)
            kernel = checked  # there will be more of them
        return made

    return _with_as_many_labels(run)


class _Filled:
    """A vector of equal numbers, kept for the next batch of the same size.

    Threads of train_from_dataset share it, so what is kept and what it is kept for are read and written as one.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, float, torch.dtype] | None, torch.Tensor] = (None, torch.empty(0))

    def get(self, size: int, value: float, dtype: torch.dtype) -> torch.Tensor:
        key, tensor = self._kept
        if key != (size, value, dtype):
            tensor = torch.full((size,), value, dtype=dtype)
            self._kept = (size, value, dtype), tensor
        return tensor


def _with_as_many_labels(kernel: Kernel) -> Kernel:
    """gather and scatter would leave out rows that have no label, and say nothing."""

    def run(x: torch.Tensor, label: torch.Tensor, *grad: torch.Tensor) -> torch.Tensor:
        if len(x) != len(label):
            raise UsageError(f"there are {len(x)} rows but {len(label)} labels in this batch; feed as many of both")
        made: torch.Tensor = kernel(x, label, *grad)
        return made

    return run


@register("fused_mul_sgd", inputs=("X", "Out@GRAD", "Param", "LearningRate"), outputs=("ParamOut",))
def _fused_mul_sgd(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, grad, param, rate: param.addmm_(x.t(), grad, alpha=-rate.item())


@register("fused_bias_sgd", inputs=("Out@GRAD", "Param", "LearningRate"), outputs=("ParamOut",))
def _fused_bias_sgd(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    filled = _Filled()

    def update(grad: torch.Tensor, param: torch.Tensor, rate: torch.Tensor) -> None:
        param.addmv_(grad.t(), filled.get(len(grad), 1.0, grad.dtype), alpha=-rate.item())

    return update
