"""Sweeps over every combination of some cases, of which `make test` runs a sample and `make test-all` the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest


def sweep(*axes: Iterable[Any], sample: Callable[..., bool]) -> list[Any]:
    """Every combination, for `pytest.mark.parametrize`; those outside the sample are marked `exhaustive`."""
    return [
        pytest.param(*case, marks=() if sample(*case) else pytest.mark.exhaustive) for case in product(*map(list, axes))
    ]
