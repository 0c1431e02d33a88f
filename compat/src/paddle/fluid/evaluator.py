"""Measures that a program adds up by itself."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.measures.evaluators": "ChunkEvaluator EditDistance"},
    refused={"DetectionMAP": "use Precision and Recall of fluid.metrics"},
)
