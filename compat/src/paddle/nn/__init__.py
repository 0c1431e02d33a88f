"""Layers over tensors."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.imperative.nn": "*"},
    parts="functional initializer",
    refused={
        name: f"layers are torch modules, so torch's own can be used, with its arguments: torch.nn.{theirs}"
        for name, theirs in {
            "BatchNorm3D": "BatchNorm3d(..., momentum=1 - momentum)",
            "Conv1D": "Conv1d",
            "Conv2DTranspose": "ConvTranspose2d",
            "Conv3D": "Conv3d",
            "GRU": "GRU(..., batch_first=True)",
            "GroupNorm": "GroupNorm",
            "LSTM": "LSTM(..., batch_first=True)",
            "MultiHeadAttention": "MultiheadAttention(..., batch_first=True)",
            "PReLU": "PReLU",
            "SimpleRNN": "RNN(..., batch_first=True)",
            "Transformer": "Transformer(..., batch_first=True)",
            "TransformerEncoder": "TransformerEncoderLayer(..., batch_first=True)",
            "Upsample": "Upsample",
        }.items()
    },
)
