"""Without Ray `fleet.ray` says how it is installed, and `fleet` is none the slower."""

from __future__ import annotations

import sys

import pytest

import fleet


def test_the_line_that_installs_ray_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("Trainer", "FleetConfig", "batches"):
        with pytest.raises(
            fleet.errors.UsageError, match=rf"fleet\.ray\.{name} needs Ray .*: pip install 'torch-fleet\[ray\]'"
        ):
            getattr(fleet.ray, name)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Trainers'"):
        _ = fleet.ray.Trainers  # type: ignore[attr-defined]
