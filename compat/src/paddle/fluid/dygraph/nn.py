"""Layers of imperative mode."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.dygraph": "BatchNorm BilinearTensorProduct Conv2D Conv2DTranspose Conv3D Conv3DTranspose Dropout "
        "Embedding Flatten GRUUnit GroupNorm InstanceNorm LayerNorm Linear NCE PRelu Pool2D SpectralNorm",
        "fleet_paddle.imperative.nn": "BCELoss L1Loss MSELoss NLLLoss",
    },
    refused={
        "FC": "use Linear(input_dim, output_dim), which needs the size of its input",
        "RowConv": "use a program with layers.row_conv",
        "SequenceConv": "use Conv2D over padded input, or a program with layers.sequence_conv",
        "TreeConv": "use Linear and layers.gather",
    },
)
