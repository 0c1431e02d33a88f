"""Functions of each element that every calculator has: powers, logarithms, angles, whole numbers."""

from __future__ import annotations

import torch

from fleet_programs.operators.common.unary import unary

unary("exp", torch.exp, "Out", lambda out, grad: grad * out, doc="e to the power x.")
unary("sqrt", torch.sqrt, "Out", lambda out, grad: grad / out * 0.5, doc="The square root.")
unary("rsqrt", torch.rsqrt, "Out", lambda out, grad: grad * out.pow(3) * -0.5, doc="1 / sqrt(x).")
unary("reciprocal", torch.reciprocal, "Out", lambda out, grad: grad * out.square().neg_(), doc="1 / x.")
unary("square", torch.square, "X", lambda x, grad: grad * x * 2, doc="x * x.")
unary("log", torch.log, "X", lambda x, grad: grad / x, doc="The natural logarithm.")
unary("log1p", torch.log1p, "X", lambda x, grad: grad / (x + 1), doc="log(1 + x), exact where x is small.", v1="")
unary("log2", torch.log2, doc="The logarithm to base 2.", v1="")
unary("log10", torch.log10, doc="The logarithm to base 10.", v1="")
unary("tan", torch.tan, doc="The tangent.", v1="")
unary("abs", torch.abs, "X", lambda x, grad: grad * x.sign(), doc="The absolute value.")
unary("sin", torch.sin, "X", lambda x, grad: grad * x.cos(), doc="The sine.")
unary("cos", torch.cos, "X", lambda x, grad: grad * x.sin().neg_(), doc="The cosine.")
unary(
    "pow",
    torch.pow,
    "X",
    lambda x, grad, factor: grad * x.pow(factor - 1) * factor,
    {"factor": 1.0},
    doc="x to the power `factor`.",
    v2="",
)
unary(
    "stanh",
    lambda x, a, b: torch.tanh(x * a) * b,
    attrs={"scale_a": 0.67, "scale_b": 1.7159},
    doc="scale_b * tanh(scale_a * x), element by element.",
)
unary(
    "tanh",
    torch.tanh,
    "Out",
    lambda out, grad: torch.ops.aten.tanh_backward(grad, out),
    doc="The hyperbolic tangent.",
    layer="Tanh",
)
unary("sinh", torch.sinh, "X", lambda x, grad: grad * x.cosh(), doc="The hyperbolic sine.")
unary("cosh", torch.cosh, "X", lambda x, grad: grad * x.sinh(), doc="The hyperbolic cosine.")
unary("asin", torch.asin, doc="The arcsine.")
unary("acos", torch.acos, doc="The arccosine.")
unary("atan", torch.atan, doc="The arctangent.")
unary("erf", torch.erf, doc="The error function.")


def round_away(x: torch.Tensor) -> torch.Tensor:
    """The nearest whole number; of two that are equally near, the one further from zero."""
    whole = torch.trunc(x)
    return whole + torch.sign(x) * ((x - whole).abs() >= 0.5)


# Steps: flat wherever they have a slope at all.
unary("floor", torch.floor, "", torch.zeros_like, doc="The largest whole number that is not above x.")
unary("ceil", torch.ceil, "", torch.zeros_like, doc="The smallest whole number that is not below x.")
unary("round", round_away, "", torch.zeros_like, doc="The nearest whole number; a half goes away from zero.")
