"""Measures that a script adds up over batches."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.measures.metrics": "*", "fleet_paddle.programs.measures.text_metrics": "*"},
    refused={"DetectionMAP": "use Precision and Recall"},
)
