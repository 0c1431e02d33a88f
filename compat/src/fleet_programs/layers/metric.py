"""Layers that measure: accuracy and AUC."""

from __future__ import annotations

from fleet.errors import NotSupportedError
from fleet_programs.expressions import names
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import topk
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.program import default_main_program, default_startup_program
from fleet_programs.program.variable import Variable

__all__ = ["accuracy", "auc"]


def accuracy(
    input: Variable, label: Variable, k: int = 1, correct: Variable | None = None, total: Variable | None = None
) -> Variable:
    """The share of rows whose label is among the `k` classes with the largest scores.

    `correct` and `total`, if given, get the number of those rows and of all.
    """
    layer = LayerBuilder("accuracy")
    values, indices = topk(layer.variable(input), k)
    out = layer.temporary("float32", stop_gradient=True)
    counts = [
        layer.temporary("int64", stop_gradient=True) if given is None else layer.variable(given, what)
        for given, what in ((correct, "correct"), (total, "total"))
    ]
    inputs = {"Out": values, "Indices": indices, "Label": layer.variable(label, "label")}
    layer.op("accuracy", inputs, {"Accuracy": out, "Correct": counts[0], "Total": counts[1]})
    return out


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Variable]]:
    """(AUC of all batches so far, AUC of the last `slide_steps` batches, their counts).

    `input` is [n, 2], a softmax over two classes, or [n, 1], the probability of class 1; `label` is [n, 1], 0 or 1.
    Scores are counted in `num_thresholds` parts of [0, 1]; those in one part are tied. The counts are the persistable
    variables [batch_stat_pos, batch_stat_neg, stat_pos, stat_neg], called `_generated_var_0` and so on: set to 0 they
    begin anew, and those of several workers can be added. Without one of the classes there is no AUC: it is NaN.
    """
    layer = LayerBuilder("auc")
    layer.variable(input)
    layer.variable(label, "label")
    if topk != 1:
        raise NotSupportedError(f"auc: topk must be 1, got {topk}")
    if num_thresholds < 1 or slide_steps < 0:
        raise layer.error(
            f"num_thresholds must be at least 1 and slide_steps at least 0, got {num_thresholds} and {slide_steps}"
        )
    found, states = [], []
    for steps in (slide_steps, 0):
        pos, neg = (_counts([max(1, steps), num_thresholds + 1]) for _ in ("pos", "neg"))
        out = layer.temporary("float64", stop_gradient=True)
        layer.op(
            "auc",
            {"Predict": input, "Label": label, "StatPos": pos, "StatNeg": neg},
            {"AUC": out, "StatPosOut": pos, "StatNegOut": neg},
            {"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps},
        )
        found.append(out)
        states += [pos, neg]
    return found[1], found[0], states


def _counts(shape: list[int]) -> Variable:
    """A persistable variable of zeros, under the name that scripts know it by when they set it to 0."""
    main, startup = default_main_program().global_block(), default_startup_program().global_block()
    name = names.generate("_generated_var", main.has_var)
    Constant(0)(startup.create_var(name, shape, "int64", persistable=True), startup)
    return main.create_var(name, shape, "int64", persistable=True, stop_gradient=True)
