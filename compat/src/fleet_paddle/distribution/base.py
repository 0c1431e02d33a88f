"""What all distributions share: their parameters as tensors or variables, and noise of the right shape."""

# ruff: noqa: ARG002  (the base lists what its heirs may have)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative import creation
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.variables import has_variable
from fleet_programs import layers
from fleet_programs.program.variable import Variable


class Distribution:
    """The base of all distributions; each has some of these methods."""

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        """Values drawn at random, `shape` of them for each element of the parameters."""
        raise self._lacks("sample")

    def entropy(self) -> Any:
        """How uncertain a value is, in nats."""
        raise self._lacks("entropy")

    def kl_divergence(self, other: Any) -> Any:
        """How far `other` is from this one, in nats."""
        raise self._lacks("kl_divergence")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at `value`."""
        raise self._lacks("log_prob")

    def probs(self, value: Any) -> Any:
        """The density at `value`."""
        return table.exp(self.log_prob(value))

    def _lacks(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}")

    def _same_kind(self, other: Any) -> None:
        if not isinstance(other, type(self)):
            raise UsageError(
                f"kl_divergence: other must be a {type(self).__name__} as well, got a {type(other).__name__}"
            )


def operand(value: Any) -> Any:
    """A parameter as it is calculated with: a tensor or a variable as it is, numbers and arrays as floats."""
    if isinstance(value, torch.Tensor | Variable):
        return value
    array = np.asarray(value)
    if array.dtype == np.float64 or not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float32)
    return creation.to_tensor(array)


def operands(*values: Any) -> tuple[Any, ...]:
    """Parameters of one distribution. Beside a variable the others become constants of its program."""
    if not has_variable(values):
        return tuple(operand(value) for value in values)
    return tuple(value if isinstance(value, Variable) else layers.assign(_array(value)) for value in values)


def drawn(made: Any, shape: Sequence[int], *given: Any) -> Any:
    """Samples of a distribution whose parameters were `given`: of plain numbers they have the shape asked for alone."""
    are_plain = shape and all(isinstance(one, int | float) for one in given)
    return table.reshape(made, list(shape)) if are_plain else made


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    return np.atleast_1d(np.asarray(value, dtype=np.float32))


def noise(kind: str, shape: Sequence[int], like: Any, seed: int) -> Any:
    """Random numbers of the shape `shape` + that of `like`: "gaussian" (0, 1), or "uniform" over [0, 1)."""
    if isinstance(like, Variable):
        return _noise_of(kind, [*shape, *like.shape], len(shape), like, seed)
    made = torch.empty([*shape, *like.shape], dtype=like.dtype, device=like.device)
    generator = torch.Generator(made.device).manual_seed(seed) if seed else None
    draw = made.normal_ if kind == "gaussian" else made.uniform_
    return as_paddle(draw(0.0, 1.0, generator=generator))


def _noise_of(kind: str, sizes: list[int], batch: int, like: Variable, seed: int) -> Variable:
    """In a program, where the size of `like`'s batch, which comes `batch`-th, may not be known before it runs."""
    least_most: dict[str, float] = {} if kind == "gaussian" else {"min": 0.0, "max": 1.0}
    more: dict[str, Any] = {**least_most, "seed": seed, "dtype": like.dtype}
    if any(size < 0 for size in sizes[batch + 1 :]):
        raise UsageError(f"sample: only the first size may be unknown, got parameters of shape {list(like.shape)}")
    draw: Callable[..., Variable]
    if sizes[batch : batch + 1] == [-1]:
        draw = getattr(layers, f"{kind}_random_batch_size_like")
        return draw(like, sizes, input_dim_idx=0, output_dim_idx=batch, **more)
    draw = getattr(layers, f"{kind}_random")
    return draw(sizes, **more)
