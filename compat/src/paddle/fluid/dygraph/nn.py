"""Layers of imperative mode."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.dygraph": "BatchNorm Conv2D Conv2DTranspose Dropout Embedding Flatten GRUUnit GroupNorm "
        "InstanceNorm LayerNorm Linear PRelu Pool2D"
    },
    refused={
        "BilinearTensorProduct": "use layers.matmul on x, a parameter and y",
        "Conv3D": "use torch.nn.Conv3d, or a program with layers.conv3d",
        "Conv3DTranspose": "use torch.nn.ConvTranspose3d",
        "FC": "use Linear(input_dim, output_dim), which needs the size of its input",
        "NCE": "sample ids and use layers.sigmoid_cross_entropy_with_logits",
        "RowConv": "use Conv2D",
        "SequenceConv": "use Conv2D over padded input, or a program with layers.sequence_conv",
        "SpectralNorm": "use torch.nn.utils.parametrizations.spectral_norm on the layer",
        "TreeConv": "use Linear and layers.gather",
    },
)
