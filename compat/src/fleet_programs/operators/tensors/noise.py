"""Random values anew in every run: uniform, normal, whole numbers, drawn classes, rows in another order.

With a `seed` every run has the same ones. First values of parameters are made by `random`, which knows their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet_programs.definition.dtypes import FLOATS, INTEGERS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.sizes import infer_sizes, sizes_of
from fleet_programs.operators.tensors.filling import infer_batch_size_like

Source = Callable[[], torch.Generator | None]
Fill = Callable[[torch.Tensor, Operator, torch.Generator | None], torch.Tensor]


def source(op: Operator, lowering: Lowering) -> Source:
    """Where an operator's random numbers come from: its seed, begun anew in every run, or the program's."""
    seed, ours = op.attr("seed"), lowering.generator
    if not seed:
        return lambda: ours
    own = torch.Generator(lowering.device)
    return lambda: own.manual_seed(seed)


def _uniform(out: torch.Tensor, op: Operator, generator: torch.Generator | None) -> torch.Tensor:
    return out.uniform_(op.attr("min"), op.attr("max"), generator=generator)


def _gaussian(out: torch.Tensor, op: Operator, generator: torch.Generator | None) -> torch.Tensor:
    return out.normal_(op.attr("mean"), op.attr("std"), generator=generator)


def _whole(out: torch.Tensor, op: Operator, generator: torch.Generator | None) -> torch.Tensor:
    return out.random_(op.attr("low"), op.attr("high"), generator=generator)


def _check(infer: Infer) -> None:
    """Fail unless dtype and limits are such that there are values."""
    attrs, kind = infer.attr, infer.op.type
    if kind == "randint":
        if attrs("dtype") not in INTEGERS or not attrs("low") < attrs("high"):
            raise infer.fail(
                f"low must be below high and dtype a whole number's, got {attrs('low')}, {attrs('high')} and "
                f"{attrs('dtype')}"
            )
        return
    if attrs("dtype") not in FLOATS:
        raise infer.fail(f"dtype must be a float, got {attrs('dtype')}")
    if "uniform" in kind and not attrs("min") <= attrs("max"):
        raise infer.fail(f"min must not be above max, got {attrs('min')} and {attrs('max')}")
    if "gaussian" in kind and attrs("std") < 0:
        raise infer.fail(f"std must be >= 0, got {attrs('std')}")


def _define(type: str, fill: Fill, attrs: Mapping[str, Any], calls: Calls) -> None:
    def infer(infer: Infer) -> None:
        _check(infer)
        infer.set("Out", infer_sizes(infer), infer.attr("dtype"))

    @register(
        type,
        inputs=("Sizes*",),
        attrs={"shape": [1], "dtype": "float32", "seed": 0, **attrs},
        infer=infer,
        is_random=True,
        calls=calls,
    )
    def _(op: Operator, lowering: Lowering) -> Kernel:
        draw, sizes, dtype = source(op, lowering), sizes_of(op), torch_dtype(op.attr("dtype"))
        return lambda *given: fill(torch.empty(sizes(given), dtype=dtype, device=lowering.device), op, draw())


_UNIFORM, _GAUSSIAN = {"min": -1.0, "max": 1.0}, {"mean": 0.0, "std": 1.0}
_define(
    "random_uniform",
    _uniform,
    _UNIFORM,
    Calls(
        "Spread evenly from `min` to `max`.",
        "uniform_random(shape, dtype='float32', min=-1.0, max=1.0, seed=0, name)",
        kind="uniform_random",
    ),
)
_define(
    "random_gaussian",
    _gaussian,
    _GAUSSIAN,
    Calls(
        "Normally distributed.",
        "gaussian_random(shape, mean=0.0, std=1.0, seed=0, dtype='float32', name)",
        kind="gaussian_random",
    ),
)


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    """`low` and `high` as attributes: a single one is the upper."""
    first, last = (given["low"], given["high"]) if "high" in given else (0, given["low"])
    return given | {"low": int(first), "high": int(last), "seed": int(given["seed"])}


_define(
    "randint",
    _whole,
    {"low": 0, "high": 1, "dtype": "int64"},
    Calls(
        "Whole numbers from `low` to below `high`; from 0 to below `low` if that is the only one.",
        "randint(low=0, high=None, shape=(1,), dtype='int64', seed=0, name)",
        to_attrs=_limits,
    ),
)


def _define_like(type: str, fill: Fill, attrs: Mapping[str, Any], calls: Calls) -> None:
    def infer(infer: Infer) -> None:
        _check(infer)
        infer_batch_size_like(infer)

    places = {"input_dim_idx": 0, "output_dim_idx": 0}

    @register(
        type,
        inputs=("Input",),
        attrs={"shape": [1], "dtype": "float32", "seed": 0, **places, **attrs},
        infer=infer,
        is_random=True,
        calls=calls,
    )
    def _(op: Operator, lowering: Lowering) -> Kernel:
        draw, shape, dtype = source(op, lowering), list(op.attr("shape")), torch_dtype(op.attr("dtype"))
        from_dim, to_dim = op.attr("input_dim_idx"), op.attr("output_dim_idx")

        def noise(given: torch.Tensor) -> torch.Tensor:
            sizes = shape.copy()
            sizes[to_dim] = given.shape[from_dim]
            return fill(torch.empty(sizes, dtype=dtype, device=lowering.device), op, draw())

        return noise


_define_like(
    "uniform_random_batch_size_like",
    _uniform,
    _UNIFORM,
    Calls(
        "`uniform_random`, of the size of a dimension of `input` (its batch) along one dimension.",
        "uniform_random_batch_size_like(input, shape, dtype='float32', input_dim_idx=0, output_dim_idx=0, min=-1.0, "
        "max=1.0, seed=0)",
    ),
)
_define_like(
    "gaussian_random_batch_size_like",
    _gaussian,
    _GAUSSIAN,
    Calls(
        "`gaussian_random`, of the size of a dimension of `input` (its batch) along one dimension.",
        "gaussian_random_batch_size_like(input, shape, input_dim_idx=0, output_dim_idx=0, mean=0.0, std=1.0, seed=0, "
        "dtype='float32')",
    ),
)


def _infer_sampling(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    infer.set("Out", infer.shape("X")[:1], infer.attr("dtype"), lod=infer.var("X").lod)


def _sampling_attrs(given: dict[str, Any]) -> dict[str, Any]:
    limits = given["min"], given["max"]
    if limits != (0.0, 1.0):
        raise NotSupportedError(f"sampling_id: min and max must be 0 and 1, got {limits[0]} and {limits[1]}")
    return {"seed": int(given["seed"]), "dtype": given["dtype"]}


@register(
    "sampling_id",
    inputs=("X",),
    attrs={"seed": 0, "dtype": "int64"},
    infer=_infer_sampling,
    is_random=True,
    calls=Calls(v1="sampling_id(x, min=0.0, max=1.0, seed=0, dtype='int64')", to_attrs=_sampling_attrs),
)
def _sampling_id(op: Operator, lowering: Lowering) -> Kernel:
    """A class for each row of probabilities [rows, classes], drawn by them."""
    draw, dtype = source(op, lowering), torch_dtype(op.attr("dtype"))
    return lambda x: torch.multinomial(x, 1, generator=draw()).view(-1).to(dtype)


def _infer_shuffle(infer: Infer) -> None:
    infer.like("Out", "X")
    infer.set("ShuffleIdx", (-1,), "int64")


@register(
    "shuffle_batch",
    inputs=("X",),
    outputs=("Out", "ShuffleIdx"),
    attrs={"seed": 0},
    infer=_infer_shuffle,
    grad=Grad(needs=("ShuffleIdx",), outs=("Out",)),
    is_random=True,
    calls=Calls(v1="shuffle_batch(x, seed=None)"),
)
def _shuffle_batch(op: Operator, lowering: Lowering) -> Kernel:
    """The rows of `x` (all dimensions but the last are one) in another order in every run; a `seed` begins them."""
    generator = lowering.generator
    if op.attr("seed"):
        generator = torch.Generator(lowering.device).manual_seed(op.attr("seed"))

    def shuffle(x: torch.Tensor) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        order = torch.randperm(len(rows), generator=generator, device=x.device)
        return rows.index_select(0, order).view(x.shape), order

    return shuffle


@register_grad("shuffle_batch")
def _shuffle_batch_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def back(order: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        rows = grad.reshape(-1, grad.shape[-1])
        return torch.empty_like(rows).index_copy_(0, order, rows).view(grad.shape)

    return back
