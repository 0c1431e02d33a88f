"""Layers under the names that `paddle.static.nn` gives them; each argument may be spelt as in 1.x or as in 2.0.

    hidden = static.nn.fc(x, 64, activation="relu")
    hidden = static.nn.fc(input=x, size=64, act="relu")

They are the layers of `fleet.static.layers`; what differs is said at each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.imperative.functions import table
from fleet_paddle.programs.nn.spelling import both_spellings


@both_spellings
def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
    is_test: bool = False,
) -> Variable:
    """A fully connected layer; see `fleet.static.layers.fc`."""
    return layers.fc(x, size, num_flatten_dims, weight_attr, bias_attr, activation, is_test, name)


@both_spellings
def prelu(
    x: Variable, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """max(0, x) + a trained factor * min(0, x); see `fleet.static.layers.prelu`."""
    if data_format != "NCHW" and mode == "channel":
        raise NotSupportedError(f"prelu: data_format must be 'NCHW', got {data_format!r}; transpose the input")
    return layers.prelu(x, mode, param_attr, name)


embedding = both_spellings(layers.embedding_v2)
"""Rows for ids: always shaped as the ids, and [width]; a last size of 1 stays."""

sparse_embedding = both_spellings(layers.sparse_embedding)
accuracy = both_spellings(layers.accuracy)
auc = both_spellings(layers.auc)
batch_norm = both_spellings(layers.batch_norm)
bilinear_tensor_product = both_spellings(layers.bilinear_tensor_product)
continuous_value_model = both_spellings(layers.continuous_value_model)
conv2d = both_spellings(layers.conv2d)
conv2d_transpose = both_spellings(layers.conv2d_transpose)
conv3d = both_spellings(layers.conv3d)
create_parameter = both_spellings(layers.create_parameter)
crf_decoding = both_spellings(layers.crf_decoding)
cross_entropy = both_spellings(layers.cross_entropy)
data_norm = both_spellings(layers.data_norm)
dropout = both_spellings(layers.dropout)
group_norm = both_spellings(layers.group_norm)
instance_norm = both_spellings(layers.instance_norm)
layer_norm = both_spellings(layers.layer_norm)
mean = both_spellings(table.mean)
nce = both_spellings(layers.nce)
pool2d = both_spellings(layers.pool2d)
relu = both_spellings(layers.relu)
row_conv = both_spellings(layers.row_conv)
sequence_concat = both_spellings(layers.sequence_concat)
sequence_conv = both_spellings(layers.sequence_conv)
sequence_enumerate = both_spellings(layers.sequence_enumerate)
sequence_expand = both_spellings(layers.sequence_expand)
sequence_expand_as = both_spellings(layers.sequence_expand_as)
sequence_first_step = both_spellings(layers.sequence_first_step)
sequence_last_step = both_spellings(layers.sequence_last_step)
sequence_pad = both_spellings(layers.sequence_pad)
sequence_pool = both_spellings(layers.sequence_pool)
sequence_reshape = both_spellings(layers.sequence_reshape)
sequence_reverse = both_spellings(layers.sequence_reverse)
sequence_scatter = both_spellings(layers.sequence_scatter)
sequence_slice = both_spellings(layers.sequence_slice)
sequence_softmax = both_spellings(layers.sequence_softmax)
sequence_unpad = both_spellings(layers.sequence_unpad)
sigmoid = both_spellings(layers.sigmoid)
softmax = both_spellings(layers.softmax)
softmax_with_cross_entropy = both_spellings(layers.softmax_with_cross_entropy)
square_error_cost = both_spellings(layers.square_error_cost)
tanh = both_spellings(layers.tanh)

_CLOSEST = {
    "case": "two programs",
    "cond": "two programs",
    "conv3d_transpose": "conv2d_transpose()",
    "deform_conv2d": "conv2d()",
    "multi_box_head": "conv2d()",
    "py_func": "an operator of your own: fleet.static.registry.register",
    "spectral_norm": "layer_norm()",
    "switch_case": "two programs",
    "while_loop": "a loop of runs",
}
"""What is known elsewhere and not built here, and what comes closest."""

__all__ = [
    "accuracy",
    "auc",
    "batch_norm",
    "bilinear_tensor_product",
    "continuous_value_model",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "create_parameter",
    "crf_decoding",
    "cross_entropy",
    "data_norm",
    "dropout",
    "embedding",
    "fc",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "mean",
    "nce",
    "pool2d",
    "prelu",
    "relu",
    "row_conv",
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
    "sigmoid",
    "softmax",
    "softmax_with_cross_entropy",
    "sparse_embedding",
    "square_error_cost",
    "tanh",
]


def __getattr__(name: str) -> object:
    if name in _CLOSEST:
        raise AttributeError(f"fleet_paddle.programs.nn.{name} is not built; the closest there is: {_CLOSEST[name]}")
    raise AttributeError(f"module 'fleet_paddle.programs.nn' has no attribute {name!r}")
