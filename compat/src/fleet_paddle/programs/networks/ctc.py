"""Losses of alignments over variables: `ctc_loss` of 2.0 and `warpctc` of 1.x add the same operator."""

from __future__ import annotations

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def ctc_losses(
    scores: Variable, labels: Variable, steps: Variable, lengths: Variable, blank: int, norm_by_times: bool
) -> Variable:
    """A loss for each of the batch: scores are [time, batch, classes], labels [batch, places]."""
    layer = LayerBuilder("warpctc")
    inputs = {"Logits": scores, "Label": labels, "LogitsLength": steps, "LabelLength": lengths}
    for what, one in inputs.items():
        layer.variable(one, what)
    out = layer.temporary(scores.dtype)
    attrs = {"blank": int(blank), "norm_by_times": bool(norm_by_times)}
    layer.op("warpctc", inputs, {"Loss": out}, attrs)
    return out
