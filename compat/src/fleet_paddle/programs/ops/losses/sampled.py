"""Losses over very many classes that look at some of them: noise-contrastive estimation, sampled softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows
from fleet_programs.operators.common.making import compared
from fleet_programs.operators.tensors.noise import source

SAMPLERS = ("uniform", "log_uniform", "custom_dist")
_LARGE = 0.125
"""The share of the classes from which on drawing one after the other takes longer than looking at all of them."""
_HIT = 1e20
"""What is taken from the logit of a drawn class that is the right one."""


def log_uniform(uniform: torch.Tensor, num_classes: int) -> torch.Tensor:
    """Classes of numbers from 0 to 1; small ones are frequent, as words are that are sorted by their counts."""
    return (torch.exp(uniform * math.log(num_classes + 1)) - 1).long().clamp_(0, num_classes - 1)


def log_uniform_probability(classes: torch.Tensor, num_classes: int) -> torch.Tensor:
    """How likely each class is to be drawn by `log_uniform`."""
    return torch.log1p(1 / (classes.double() + 1)) / math.log(num_classes + 1)


def _infer_nce(infer: Infer) -> None:
    infer.require_dtype("Input", FLOATS)
    infer.require_dtype("Label", INTEGERS)
    for slot in ("Input", "Label", "Weight"):
        infer.require_rank(slot, 2)
    x, label, count = infer.var("Input"), infer.var("Label"), infer.attr("num_total_classes")
    if infer.shape("Weight") != (count, x.shape[1]) or (infer.has("Bias") and infer.shape("Bias") != (count, 1)):
        raise infer.fail(f"Weight must have shape {[count, x.shape[1]]} and Bias [{count}, 1]")
    if infer.has("SampleWeight") and not may_equal(infer.shape("SampleWeight"), (x.shape[0], 1)):
        raise infer.fail(f"SampleWeight must have shape [rows, 1], got {list(infer.shape('SampleWeight'))}")
    sampler, probabilities, drawn = infer.attr("sampler"), infer.attr("custom_dist"), infer.attr("num_neg_samples")
    if sampler not in SAMPLERS or (sampler == "custom_dist") != (len(probabilities) == count):
        raise infer.fail(
            f"sampler must be one of {', '.join(SAMPLERS)}, the last with {count} probabilities, got {sampler!r} with "
            f"{len(probabilities)}"
        )
    if drawn < 1 or label.shape[1] < 1:
        raise infer.fail(f"there must be at least 1 negative sample and 1 label, got {drawn} and {label.shape[1]}")
    infer.set("Cost", (x.shape[0], 1), x.dtype)
    infer.set("SampleLogits", (x.shape[0], label.shape[1] + drawn), x.dtype)
    infer.set("SampleLabels", (x.shape[0], label.shape[1] + drawn), "int64")


def _sampler(op: Operator, lowering: Lowering) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """(draws classes of a shape, the probability of each class)."""
    kind, count, draw = op.attr("sampler"), op.attr("num_total_classes"), source(op, lowering)
    probabilities = torch.tensor(list(op.attr("custom_dist")), dtype=torch.float64, device=lowering.device)

    def uniform(shape: tuple[int, int]) -> torch.Tensor:
        return torch.rand(shape, dtype=torch.float64, generator=draw(), device=lowering.device)

    if kind == "uniform":
        return (lambda shape: (uniform(shape) * count).long().clamp_(max=count - 1)), (
            lambda classes: torch.full(classes.shape, 1 / count, dtype=torch.float64, device=classes.device)
        )
    if kind == "log_uniform":
        return (lambda shape: log_uniform(uniform(shape), count)), lambda classes: log_uniform_probability(
            classes, count
        )
    return (
        lambda shape: torch.multinomial(probabilities, shape[0] * shape[1], True, generator=draw()).view(shape)
    ), probabilities.__getitem__


@register(
    "nce",
    inputs=("Input", "Label", "Weight", "Bias?", "SampleWeight?"),
    outputs=("Cost", "SampleLogits", "SampleLabels"),
    attrs={
        "num_total_classes": 1,
        "num_neg_samples": 10,
        "sampler": "uniform",
        "custom_dist": [],
        "seed": 0,
        "is_sparse": False,
    },
    infer=_infer_nce,
    grad=Grad(
        needs=("Input", "Label", "Weight", "SampleWeight", "SampleLogits", "SampleLabels"),
        wrt=("Input", "Weight", "Bias"),
        outs=("Cost",),
    ),
    is_random=True,
)
def _nce(op: Operator, lowering: Lowering) -> Kernel:
    """SampleLogits are probabilities: sigmoids of the logits of labels and drawn classes."""
    draw, chance_of = _sampler(op, lowering)
    drawn, has_bias, has_weights = op.attr("num_neg_samples"), bool(op.input("Bias")), bool(op.input("SampleWeight"))

    def nce(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor, *more: torch.Tensor) -> Any:
        classes = torch.cat([label.long(), draw((len(x), drawn))], 1)
        # Refuses a label below 0, which an index would count from the end.
        logits = torch.einsum("nd,nsd->ns", x, functional.embedding(classes, weight))
        if has_bias:
            logits = logits + more[0].view(-1)[classes]
        probabilities = logits.sigmoid()
        noise = (chance_of(classes) * drawn).to(x.dtype)
        right = label.shape[1]
        top = torch.cat([probabilities[:, :right], noise[:, right:]], 1)
        cost = ((probabilities + noise) / top).log().sum(1, keepdim=True)
        return (cost * more[-1] if has_weights else cost), probabilities, classes

    return compared(nce, op, lowering, "Input", "Label", num_dims=1)


def _infer_nce_grad(infer: Infer) -> None:
    for slot in ("Input", "Weight", "Bias"):
        for name in infer.op.output(f"{slot}@GRAD"):
            var = infer.block.var(name.split("@GRAD")[0])
            kind = ROWS if infer.attr("is_sparse") and slot != "Input" else None
            infer.set(f"{slot}@GRAD", var.shape, var.dtype, kind=kind)


@register_grad("nce", infer=_infer_nce_grad)
def _nce_grad(op: Operator, lowering: Lowering) -> Kernel:
    chance_of = _sampler(op, lowering)[1]
    drawn, is_sparse, has_weights = op.attr("num_neg_samples"), op.attr("is_sparse"), bool(op.input("SampleWeight"))
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("Input", "Weight", "Bias")]

    def added(classes: torch.Tensor, values: torch.Tensor, height: int) -> Any:
        rows = Rows(classes.reshape(-1), values, height)
        return rows if is_sparse else rows.to_dense()

    def gradient(*given: torch.Tensor) -> Any:
        x, label, weight, *weights, probabilities, classes, grad = given
        right = label.shape[1]
        noise = (chance_of(classes) * drawn).to(x.dtype)
        slope = (1 - probabilities) / (probabilities + noise)
        slope = torch.cat([-noise[:, :right], probabilities[:, right:]], 1) * slope
        slope = slope * (grad * weights[0] if has_weights else grad)
        found: list[Any] = []
        if wanted[0]:
            found.append(torch.einsum("ns,nsd->nd", slope, weight[classes]))
        if wanted[1]:
            rows = slope.unsqueeze(2) * x.unsqueeze(1)
            found.append(added(classes, rows.view(-1, x.shape[1]), len(weight)))
        if wanted[2]:
            found.append(added(classes, slope.reshape(-1, 1), len(weight)))
        return found[0] if len(found) == 1 else tuple(found)

    return gradient


def _infer_sample(infer: Infer) -> None:
    infer.require_dtype("Logits", FLOATS)
    infer.require_dtype("Labels", INTEGERS)
    infer.require_rank("Logits", 2)
    infer.require_rank("Labels", 2)
    logits, labels, count = infer.var("Logits"), infer.var("Labels"), infer.attr("num_samples")
    if count < 1 or 0 <= logits.shape[1] < count:
        raise infer.fail(f"num_samples must be from 1 to {logits.shape[1]}, the number of classes, got {count}")
    infer.set("SampledLogits", (logits.shape[0], labels.shape[1] + count), logits.dtype)
    infer.set("Samples", (logits.shape[0], labels.shape[1] + count), "int64")


@register(
    "sample_logits",
    inputs=("Logits", "Labels", "CustomizedSamples?", "CustomizedProbabilities?"),
    outputs=("SampledLogits", "Samples"),
    attrs={"num_samples": 1, "remove_accidental_hits": True, "seed": 0},
    infer=_infer_sample,
    grad=Grad(needs=("Logits", "Samples"), wrt=("Logits",), outs=("SampledLogits",)),
    is_random=True,
)
def _sample_logits(op: Operator, lowering: Lowering) -> Kernel:
    """Logits of the labels, then of classes drawn once for the batch, each less the logarithm of its probability."""
    count, removes, draw = op.attr("num_samples"), op.attr("remove_accidental_hits"), source(op, lowering)

    def sample(logits: torch.Tensor, labels: torch.Tensor, *given: torch.Tensor) -> Any:
        right = labels.shape[1]
        if given:
            classes, probabilities = given[0].long(), given[1]
        else:
            drawn, tries = _distinct(draw(), logits.shape[1], count, lowering.device)
            classes = torch.cat([labels.long(), drawn.expand(len(labels), -1)], 1)
            single = log_uniform_probability(classes, logits.shape[1])
            probabilities = single * count if tries == count else -torch.expm1(tries * torch.log1p(-single))
        found = logits.gather(1, classes) - probabilities.to(logits.dtype).log()
        if removes:
            hits = (classes[:, right:].unsqueeze(2) == labels.unsqueeze(1)).any(2)
            found[:, right:] -= hits * _HIT
        return found, classes

    return sample


def _distinct(
    generator: torch.Generator | None, num_classes: int, count: int, device: torch.device
) -> tuple[torch.Tensor, int]:
    """`count` distinct classes by `log_uniform`, and how many were drawn until there were so many."""
    if count > num_classes * _LARGE:
        return _distinct_of_all(generator, num_classes, count, device)
    drawn = torch.empty(0, dtype=torch.int64)
    while True:
        more = torch.rand(2 * count, dtype=torch.float64, generator=generator, device=device)
        drawn = torch.cat([drawn, log_uniform(more, num_classes).cpu()])
        first = np.sort(np.unique(drawn.numpy(), return_index=True)[1])
        if len(first) >= count:
            return drawn[first[:count]].to(device), int(first[count - 1]) + 1


def _distinct_of_all(
    generator: torch.Generator | None, num_classes: int, count: int, device: torch.device
) -> tuple[torch.Tensor, int]:
    """The same where drawing until there are enough takes long: a race of all classes has the same order of arrival.

    How often one of those before came again is then drawn for each that is new.
    """
    probabilities = log_uniform_probability(torch.arange(num_classes, device=device), num_classes)
    uniform = torch.rand((2, num_classes), dtype=torch.float64, generator=generator, device=device)
    times, again = -torch.log1p(-uniform)
    order = (times / probabilities).argsort()
    left = probabilities[order].flip(0).cumsum(0).flip(0)[1:count]  # the probability of a new one after each
    tries = 1 + (again[1:count] / -torch.log1p(-left)).ceil().clamp_(min=1).sum()
    return order[:count], int(tries)


@register_grad("sample_logits")
def _sample_logits_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda logits, classes, grad: torch.zeros_like(logits).scatter_add_(1, classes, grad)
