"""Optimizers of programs that declare their arguments as fields."""

from __future__ import annotations

from inspect import signature

import pytest

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import optimizer
from fleet_programs.optimizer.declared import Declared, setting


class Own(optimizer.Adam):
    decay: float = setting(default=0.5, attr="fading")


def test_fields_of_a_class_follow_those_it_inherits() -> None:
    names = list(signature(Own).parameters)
    assert names[:6] == ["learning_rate", "beta1", "beta2", "epsilon", "lazy_mode", "decay"]
    assert names[6:] == ["regularization", "grad_clip", "name", "parameter_list"]


def test_a_field_is_checked_and_becomes_an_attribute() -> None:
    assert Own(decay=0.25).attrs(None)["fading"] == 0.25  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Own: decay must be >= 0, got -1"):
        Own(decay=-1)


def test_a_class_keeps_nothing_of_its_fields() -> None:
    assert not hasattr(optimizer.SGD, "learning_rate")
    assert not hasattr(optimizer.Momentum, "momentum")
    assert optimizer.Momentum(0.1, 0.9).momentum == 0.9


def test_an_argument_that_is_missing_is_named_with_its_class() -> None:
    with pytest.raises(UsageTypeError, match="Momentum: missing a required argument: 'momentum'"):
        optimizer.Momentum(0.1)  # type: ignore[call-arg]


def test_what_all_take_is_by_name_alone() -> None:
    assert issubclass(optimizer.SGD, Declared)
    with pytest.raises(UsageTypeError, match="SGD: too many positional arguments"):
        optimizer.SGD(0.1, None)  # type: ignore[call-arg]
