"""`paddle.fft` of 2.2: Fourier transforms of tensors, each one of `torch.fft` with other names of arguments.

`norm` says what the sums are divided by: "backward" only those of an inverse by their length, "forward" only the
others, "ortho" both by its root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.variables.missing import not_built
from fleet_paddle.variables import has_variable

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Transform = Callable[..., Any]


def _line(name: str, doc: str) -> Transform:
    """A transform along one dimension."""
    of_torch: Any = getattr(torch.fft, name)

    def transform(x: Any, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Any:
        del name
        return as_paddle(of_torch(_tensor(x, transform.__name__), n, axis, norm))

    return _named(transform, name, doc)


def _plane(name: str, doc: str) -> Transform:
    """A transform along two dimensions."""
    of_torch: Any = getattr(torch.fft, name)

    def transform(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str = "backward", name: str | None = None) -> Any:
        del name
        return as_paddle(of_torch(_tensor(x, transform.__name__), s, axes, norm))

    return _named(transform, name, doc)


def _space(name: str, doc: str) -> Transform:
    """A transform along several dimensions, all unless they are given."""
    of_torch: Any = getattr(torch.fft, name)

    def transform(x: Any, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None) -> Any:
        del name
        return as_paddle(of_torch(_tensor(x, transform.__name__), s, axes, norm))

    return _named(transform, name, doc)


def _named(transform: Transform, name: str, doc: str) -> Transform:
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


def _tensor(x: Any, what: str) -> Any:
    if has_variable([x]):
        raise not_built(f"fft.{what}")
    return x


fft = _line("fft", "The transform of complex numbers.")
ifft = _line("ifft", "The inverse of `fft`.")
rfft = _line("rfft", "The transform of real numbers, of which one half is enough.")
irfft = _line("irfft", "The inverse of `rfft`; `n` is how many real numbers there were.")
hfft = _line("hfft", "The transform of numbers that are the mirror of their conjugates: it is real.")
ihfft = _line("ihfft", "The inverse of `hfft`.")
fft2 = _plane("fft2", "`fft` along two dimensions.")
ifft2 = _plane("ifft2", "The inverse of `fft2`.")
rfft2 = _plane("rfft2", "`rfft` along two dimensions.")
irfft2 = _plane("irfft2", "The inverse of `rfft2`.")
hfft2 = _plane("hfft2", "`hfft` along two dimensions.")
ihfft2 = _plane("ihfft2", "The inverse of `hfft2`.")
fftn = _space("fftn", "`fft` along several dimensions.")
ifftn = _space("ifftn", "The inverse of `fftn`.")
rfftn = _space("rfftn", "`rfft` along several dimensions.")
irfftn = _space("irfftn", "The inverse of `rfftn`.")
hfftn = _space("hfftn", "`hfft` along several dimensions.")
ihfftn = _space("ihfftn", "The inverse of `hfftn`.")


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Any:  # noqa: ARG001
    """The frequencies that `fft` gives of `n` numbers at distances `d`."""
    return as_paddle(torch.fft.fftfreq(n, d, dtype=None if dtype is None else dtype_of(dtype)))


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Any:  # noqa: ARG001
    """The frequencies that `rfft` gives."""
    return as_paddle(torch.fft.rfftfreq(n, d, dtype=None if dtype is None else dtype_of(dtype)))


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:  # noqa: ARG001
    """Frequency 0 in the middle."""
    return as_paddle(torch.fft.fftshift(_tensor(x, "fftshift"), axes))


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:  # noqa: ARG001
    """The inverse of `fftshift`."""
    return as_paddle(torch.fft.ifftshift(_tensor(x, "ifftshift"), axes))
