"""Measures."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static.nn": "accuracy"},
    refused=dict.fromkeys(("Accuracy", "Auc", "Metric", "Precision", "Recall"), "use those of paddle.fluid.metrics"),
)
