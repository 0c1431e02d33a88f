"""Layers against torch: what a program computes, and its gradients, beside a plain function under autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from fleet_programs.backward.backward import gradients
from fleet_programs.layers.io import fed
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

RNG = np.random.default_rng(5)
Build = Callable[..., Variable]
SEED = "seed_of_check"


def normal(*shape: int) -> Any:
    """float64 numbers around 0."""
    return RNG.normal(size=shape)


def feed_variable(name: str, value: Any) -> Variable:
    """A variable for a value, or a ragged one for (values, offsets); the batch may have any size."""
    array = value[0] if isinstance(value, tuple) else value
    return fed(name, [-1, *array.shape[1:]], array.dtype, lod_level=1 if isinstance(value, tuple) else 0)


class Tried:
    """A layer in a program of its own, with the gradients of its floats and parameters."""

    def __init__(self, build: Build, feeds: Mapping[str, Any], place: object = None) -> None:
        self.feeds = dict(feeds)
        with building(place) as self.built:
            given = {name: feed_variable(name, value) for name, value in feeds.items()}
            self.out = build(**given)
            parameters = [one for one in self.built.main.all_parameters() if one.trainable]
            wanted = [var for var in given.values() if var.dtype == "float64"] + list(parameters)
            self.slopes = gradients(self.out, wanted, fed(SEED, self.out.shape, self.out.dtype))
        self.built.start()
        own = np.random.default_rng(1)  # not what initialisers give, so that zeros and ones hide nothing
        self.parameters = {one.name: own.normal(size=one.shape) for one in parameters}
        for name, value in self.parameters.items():
            self.built.scope.tensors[name] = torch.from_numpy(value.copy()).to(self.built.scope.tensors[name].device)

    def run(self, weights: Any) -> tuple[Any, list[Any]]:
        """The layer's value, and its gradients where there are some."""
        fetches = [self.out, *[slope for slope in self.slopes if slope is not None]]
        out, *found = self.built.run({**self.feeds, SEED: weights}, *fetches)
        left = iter(found)
        return out, [None if slope is None else next(left) for slope in self.slopes]


def check(build: Build, feeds: Mapping[str, Any], reference: Callable[..., torch.Tensor]) -> Built:
    """Compare a layer with `reference(*feeds, *parameters)`, forward and in every gradient, in float64."""
    tried = Tried(build, feeds)
    leaves = [_leaf(value) for value in (*feeds.values(), *tried.parameters.values())]
    expected = reference(*leaves)
    weights = normal(*expected.shape)
    out, found = tried.run(weights)
    np.testing.assert_allclose(out, expected.detach().numpy(), rtol=1e-9, atol=1e-9)
    assert _fits(tried.out.shape, out.shape), f"inferred {tried.out.shape}, computed {out.shape}"

    floats = [leaf for leaf in leaves if leaf.requires_grad]
    slopes: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
        expected, floats, torch.from_numpy(weights), allow_unused=True
    )
    for leaf, slope, value in zip(floats, slopes, found, strict=True):
        wanted = torch.zeros_like(leaf) if slope is None else slope
        got = np.zeros(leaf.shape) if value is None else value
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-9, atol=1e-9)
    return tried.built


def _leaf(value: Any) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(value[0] if isinstance(value, tuple) else value))
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def _fits(inferred: tuple[int, ...], computed: tuple[int, ...]) -> bool:
    return len(inferred) == len(computed) and all(i in (-1, c) for i, c in zip(inferred, computed, strict=True))
