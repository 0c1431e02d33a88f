"""A strategy as a file: round trip, readable text, clear errors, atomic writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from fleet.errors import FleetError, StrategyError, UnknownFieldError
from fleet.strategy import DistributedStrategy
from fleet.strategy.check import Check, Finite, Many, Maybe, RefusedError, Switch, Text, Whole
from fleet.strategy.field import Spec
from fleet.strategy.record import GroupField

TEXT = draw.text(draw.characters(exclude_categories=["Cs"]), max_size=8)


def _accepts(check: Check[Any], value: object) -> bool:
    try:
        check(value)
    except RefusedError:
        return False
    return True


def _values(check: Check[Any]) -> draw.SearchStrategy[Any]:
    """Values a check accepts."""
    match check:
        case Switch():
            return draw.booleans()
        case Whole():
            return draw.integers(-2, 2**63 - 1).filter(lambda value: _accepts(check, value))
        case Finite():
            inside = draw.floats(0, 2, allow_nan=False) | draw.floats(allow_nan=False, allow_infinity=False)
            return inside.filter(lambda value: _accepts(check, value))
        case Text(choices):
            return draw.sampled_from(choices) if choices else TEXT
        case Many(each):
            return draw.lists(_values(each), max_size=3)
        case Maybe(inner):
            return draw.none() | _values(inner)
    raise AssertionError(check)


def _dicts(members: dict[str, Any]) -> draw.SearchStrategy[dict[str, Any]]:
    fields = {name: _values(member.check) for name, member in members.items() if isinstance(member, Spec)}
    return draw.fixed_dictionaries({}, optional=fields)


SWITCHES = _dicts(DistributedStrategy._members)
GROUPS = draw.fixed_dictionaries(
    {},
    optional={
        name: _dicts(member.group._members)
        for name, member in DistributedStrategy._members.items()
        if isinstance(member, GroupField)
    },
)


@settings(max_examples=40, deadline=None)
@given(switches=SWITCHES, groups=GROUPS, groups_first=draw.booleans())
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    switches: dict[str, Any],
    groups: dict[str, Any],
    groups_first: bool,
) -> None:
    strategy = DistributedStrategy()
    for name, value in {**groups, **switches}.items() if groups_first else {**switches, **groups}.items():
        setattr(strategy, name, value)
    path = tmp_path_factory.mktemp("strategy") / "strategy.toml"
    strategy.save(path)
    assert DistributedStrategy.load(path) == strategy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "strategy.toml"


def test_the_file_explains_itself(path: Path) -> None:
    strategy = DistributedStrategy()
    strategy.a_sync = True
    strategy.amp_configs = {"custom_white_list": ['a"b', "c\n"]}
    strategy.save(path)
    assert path.read_text() == (
        "# A Fleet strategy: the fields that differ from their defaults. "
        "help(fleet.DistributedStrategy) lists all.\n"
        "\n# a_sync lets servers apply a gradient when it arrives; False waits for all workers of a step\n"
        "a_sync = true\n"
        "\n[a_sync_configs]\n"
        "\n# k_steps is the number of batches between two exchanges in geo mode\n"
        "k_steps = 0\n"
        "\n[amp_configs]\n"
        "\n# custom_white_list names functions of torch (such as linear) that always run in half precision\n"
        'custom_white_list = ["a\\"b", "c\\u000a"]\n'
    )


def test_a_file_written_by_hand(path: Path) -> None:
    path.write_text("[a_sync_configs]\nk_steps = 100\n")
    strategy = DistributedStrategy.load(str(path))
    assert strategy.mode == "geo"
    path.write_text("a_sync = false\n")
    assert DistributedStrategy.load(path).mode == "sync"


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"amp = ", StrategyError, "is not a TOML file: Invalid value"),
        (b"amp = true\namp = false\n", StrategyError, "is not a TOML file"),
        (b"\xff\xfe", StrategyError, "is not a TOML file"),
        (b"x = " + b"[" * 100_000, StrategyError, "is not a TOML file: nested too deeply"),
        (b"x = " + b"9" * 5000, StrategyError, "is not a TOML file"),
        (b"amp = 1\n", StrategyError, ": strategy.amp must be True or False, got 1"),
        (b"amp_configs = 1\n", StrategyError, ": strategy.amp_configs must be a dict"),
        (b"[amp]\nx = 1\n", StrategyError, ": strategy.amp must be True or False, got {'x': 1}"),
        (
            b"[amp_configs]\nincr_ratio = inf\n",
            StrategyError,
            ": strategy.amp_configs.incr_ratio must be a finite",
        ),
        (b"[amp_configs]\nincr_ratio = 1979-05-27\n", StrategyError, "incr_ratio must be a number"),
        (b"amq = true\n", UnknownFieldError, ": strategy has no field 'amq'; did you mean 'amp'?"),
        (b"_values = 1\n", UnknownFieldError, "strategy has no field '_values'"),
        (b"mode = 'geo'\n", StrategyError, ": strategy.mode cannot be set; it follows from a_sync"),
        (b"[amp_configs]\nratio = 1\n", UnknownFieldError, "strategy.amp_configs has no field 'ratio'"),
    ],
)
def test_a_bad_file_is_one_clear_line(path: Path, content: bytes, kind: type[FleetError], message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(kind) as caught:
        DistributedStrategy.load(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(StrategyError, match=r"strategy\.toml cannot be read: No such file or directory"):
        DistributedStrategy.load(path)
    with pytest.raises(StrategyError, match="cannot be read: Is a directory"):
        DistributedStrategy.load(path.parent)


def test_what_auto_leaves_alone_is_saved(path: Path) -> None:
    strategy = DistributedStrategy()
    strategy.auto, strategy.compile = True, False
    strategy.save(path)
    loaded = DistributedStrategy.load(path)
    assert loaded.is_set("compile")
    assert loaded == strategy
    strategy = DistributedStrategy()
    strategy.auto = True
    assert loaded != strategy


def test_a_failed_save_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = DistributedStrategy()
    strategy.save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    strategy.amp = True
    with pytest.raises(StrategyError, match=r"strategy\.toml cannot be written: disk full"):
        strategy.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_takes_no_file(path: Path) -> None:
    for place, reason in ((path / "x.toml", "No such file or directory"), (path.parent, "Is a directory")):
        with pytest.raises(StrategyError) as caught:
            DistributedStrategy().save(place)
        assert str(caught.value) == f"{place} cannot be written: {reason}"
        assert not list(path.parent.iterdir())
