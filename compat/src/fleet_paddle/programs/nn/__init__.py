"""Layers under the names that `paddle.static.nn` gives them; each argument may be spelt as in 1.x or as in 2.0.

    hidden = static.nn.fc(x, 64, activation="relu")
    hidden = static.nn.fc(input=x, size=64, act="relu")

They are the layers of `fleet_programs.layers` and of `programs.layers`; what differs is said at each function.
"""

from __future__ import annotations

from typing import Any

from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn import functional
from fleet_paddle.imperative.nn.base.parameter import make
from fleet_paddle.imperative.tensor import Tensor
from fleet_paddle.past import with_past
from fleet_paddle.programs import layers as more
from fleet_paddle.programs.nn.spelling import both_spellings, renamed
from fleet_programs import layers
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.variable import Variable

fc = both_spellings(
    renamed(
        "fc(x->input, size, num_flatten_dims=1, weight_attr->param_attr=None, bias_attr=None, activation->act=None, "
        "name, is_test=False)",
        layers.fc,
    )
)


@both_spellings
def prelu(
    x: Variable, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """max(0, x) + a trained factor * min(0, x); see `fleet_programs.layers.prelu`."""
    if data_format == "NCHW" or mode != "channel":
        return layers.prelu(x, mode, param_attr, name)
    places = range(1, x.ndim - 1)
    first = layers.transpose(x, [0, x.ndim - 1, *places])
    return layers.transpose(layers.prelu(first, mode, param_attr, name), [0, *range(2, x.ndim), 1])


@both_spellings
def layer_norm(
    input: Any,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """Each example with mean 0 and variance 1; see `fleet_programs.layers.layer_norm`.

    Of a tensor it is the same with a scale and a bias that are made for this call, and so are never trained: that is
    what 2.x does outside of programs. `nn.LayerNorm` has some to train.
    """
    if isinstance(input, Tensor):
        sizes = list(input.shape)[begin_norm_axis:]
        weight = make(sizes, param_attr, default=Constant(1.0)) if scale else None
        bias = make(sizes, bias_attr, is_bias=True) if shift else None
        made = functional.layer_norm(input, sizes, weight, bias, epsilon)
        return made if act is None else getattr(functional, act)(made)
    return layers.layer_norm(input, scale, shift, begin_norm_axis, epsilon, param_attr, bias_attr, act, name)


_SAME = [
    "accuracy",
    "auc",
    "batch_norm",
    "bilinear_tensor_product",
    "case",
    "cond",
    "continuous_value_model",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "create_parameter",
    "crf_decoding",
    "cross_entropy",
    "data_norm",
    "dropout",
    "group_norm",
    "instance_norm",
    "nce",
    "pool2d",
    "py_func",
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
    "spectral_norm",
    "square_error_cost",
    "switch_case",
    "tanh",
    "while_loop",
]
"""Layers that have the name they have there."""

globals().update(
    {name: with_past(name, both_spellings(getattr(layers if name in layers.__all__ else more, name))) for name in _SAME}
)

embedding = both_spellings(layers.embedding_v2)
"""Rows for ids: always shaped as the ids, and [width]; a last size of 1 stays."""

mean = both_spellings(table.mean)

_CLOSEST = {
    "deform_conv2d": "conv2d()",
    "multi_box_head": "conv2d()",
}
"""What is known elsewhere and not built here, and what comes closest."""

__all__ = sorted([*_SAME, "embedding", "fc", "layer_norm", "mean", "prelu"])


def __getattr__(name: str) -> Any:
    if name in _CLOSEST:
        raise AttributeError(f"fleet_paddle.programs.nn.{name} is not built; the closest there is: {_CLOSEST[name]}")
    raise AttributeError(f"module 'fleet_paddle.programs.nn' has no attribute {name!r}")
