"""What scripts of the Fluid era take from version 2: readers and datasets."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.batches.reader": "batch"},
    renamed={
        "dataset": "paddle.dataset",
        "minibatch": "paddle.reader",
        "plot": "paddle.utils.plot",
        "reader": "paddle.reader",
    },
    refused=dict.fromkeys(
        (
            "activation",
            "data_type",
            "event",
            "infer",
            "init",
            "inference",
            "layer",
            "networks",
            "optimizer",
            "parameters",
            "trainer",
            "topology",
        ),
        "write the model with paddle.fluid",
    ),
)
