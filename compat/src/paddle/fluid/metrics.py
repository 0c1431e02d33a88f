"""Measures that a script adds up over batches."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.metrics": "*"},
    refused={"ChunkEvaluator": "use Precision and Recall", "DetectionMAP": "use Precision and Recall"},
)
