"""A softmax, its cross entropy, their mean and their gradients, which are simple together: probability minus label."""

from __future__ import annotations

from fleet_programs.definition.operator import Operator
from fleet_programs.executor.fuse.ops import Ops


def fuse_softmax_loss(ops: Ops) -> list[Operator]:
    """cross_entropy_grad, softmax_grad -> fused_softmax_loss_grad."""
    gone: list[Operator] = []
    made: dict[int, Operator] = {}
    for loss in _over_classes(ops, "cross_entropy_grad"):
        slope = loss.output("X@GRAD")[0]
        softmax = ops.only_reader(slope, even_if_fetched=True)
        if softmax is None or softmax.type != "softmax_grad" or softmax.input("Out") != loss.input("X"):
            continue
        if softmax.attr("axis") not in (-1, 1) or not ops.is_kept(loss.input_names, loss, softmax):
            continue
        # Where a probability is 0 the two steps do not equal the one, so what is trained must not depend on a fetch.
        gone += [softmax] if ops.is_fetched(slope) else [loss, softmax]
        made[id(softmax)] = Operator(
            "fused_softmax_loss_grad",
            {"X": loss.input("X"), "Label": loss.input("Label"), "Y@GRAD": loss.input("Y@GRAD")},
            {"X@GRAD": softmax.output("X@GRAD")},
            {"ignore_index": loss.attr("ignore_index")},
            role=loss.role,
            callsite=loss.callsite,
        )
    return ops.replaced(gone, made)


def fuse_mean_loss(ops: Ops) -> list[Operator]:
    """cross_entropy, mean -> fused_mean_loss; a gradient of the mean that is a constant becomes a number."""
    gone: list[Operator] = []
    made: dict[int, Operator] = {}
    for loss in _over_classes(ops, "cross_entropy"):
        readers = ops.private_readers(loss.output("Y")[0])
        by_type = {op.type: op for op in readers}
        mean, back = by_type.get("mean"), by_type.get("mean_grad")
        if mean is None or len(readers) != (1 if back is None else 2) or not ops.is_kept(loss.input_names, loss, mean):
            continue
        if back is not None:
            start = ops.writer(back.input("Out@GRAD")[0], "fill_constant")
            grad = ops.only_reader(back.output("X@GRAD")[0])
            if start is None or ops.only_reader(start.output("Out")[0]) is not back:
                continue
            if grad is None or grad.type != "fused_softmax_loss_grad":
                continue
            inputs = {"X": grad.input("X"), "Label": grad.input("Label")}
            attrs = {**grad.attrs, "mean_grad": float(start.attr("value"))}
            made[id(grad)] = Operator(grad.type, inputs, grad.outputs, attrs, role=grad.role, callsite=grad.callsite)
            gone += [start, back]
        gone.append(loss)
        made[id(mean)] = Operator(
            "fused_mean_loss",
            {"X": loss.input("X"), "Label": loss.input("Label")},
            {"Out": mean.output("Out")},
            {"ignore_index": loss.attr("ignore_index")},
            callsite=loss.callsite,
        )
    return ops.replaced(gone, made)


def _over_classes(ops: Ops, type: str) -> list[Operator]:
    return [loss for loss in ops if loss.type == type and _has_classes(ops, loss)]


def _has_classes(ops: Ops, loss: Operator) -> bool:
    """Whether labels are classes of the columns of a matrix."""
    return not loss.attr("soft_label") and len(ops.var(loss.input("X")[0]).shape) == 2
