"""Layers over tensors."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.imperative.nn": "*"},
    parts="functional initializer",
    refused={
        name: f"layers are torch modules: torch.nn.{theirs} works as it is"
        for name, theirs in {
            "BatchNorm3D": "BatchNorm3d",
            "Conv1D": "Conv1d",
            "Conv2DTranspose": "ConvTranspose2d",
            "Conv3D": "Conv3d",
            "GRU": "GRU",
            "GroupNorm": "GroupNorm",
            "LSTM": "LSTM",
            "MultiHeadAttention": "MultiheadAttention",
            "PReLU": "PReLU",
            "SimpleRNN": "RNN",
            "Transformer": "Transformer",
            "TransformerEncoder": "TransformerEncoder",
            "Upsample": "Upsample",
        }.items()
    },
)
