"""Measures that a script adds up over batches."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.metrics": "*", "fleet_paddle.programs.text_metrics": "*"},
    refused={"DetectionMAP": "use Precision and Recall"},
)
