"""Attributes of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.attr": "ParamAttr"},
    refused={"WeightNormParamAttr": "use ParamAttr with a regularizer, or layers.l2_normalize on the weights"},
)
