"""The writer of YAML: a reader of YAML finds the same values, and comments stand where they were put."""

from __future__ import annotations

import pytest
import yaml

from fleet_tools.engines.yaml_text import Noted, comment, documents

NASTY = [
    *("yes", "no", "on", "Off", "null", "~", "true", "1", "1.5", "0x10", "1e3", "1_000", "12:30:45", ".5", ".inf", ""),
    *(
        "a: b",
        "a #b",
        "#",
        "- a",
        "-",
        "?",
        "!x",
        "&x",
        "*x",
        "%x",
        "@x",
        "`x`",
        "{a}",
        "[a]",
        "a\nb",
        "a\n\nb\n",
        "'",
        '"',
    ),
    *(
        "a:",
        ":a",
        "é",
        "\t",
        "a\\b",
        " a",
        "a ",
        "=",
        "<<",
        "2001-01-01",
        "$(A)",
        "${B##*-}",
        "--lr",
        "y",
        "N",
        "---",
        "...",
    ),
]


@pytest.mark.parametrize("text", NASTY)
def test_a_text_is_read_as_it_was(text: str) -> None:
    wanted = {"key": text, "list": [text, [text], {"a": text}], text: 1}
    assert yaml.safe_load(documents(wanted)) == wanted


def test_nested_values_and_empty_ones_are_read_as_they_were() -> None:
    wanted = {
        "a": [{"b": [1, 2.5, None, True], "c": {}}, [], [["x"]]],
        "d": {"e": {"f": [{"g": 1}, {"h": [3]}]}},
        "i": 0,
    }
    assert yaml.safe_load(documents(wanted)) == wanted
    assert list(yaml.safe_load_all(documents(wanted, {"z": 1}))) == [wanted, {"z": 1}]


def test_comments_stand_behind_their_values_and_change_none() -> None:
    text = documents(
        {"a": Noted(3, "choose"), "b": Noted({"c": 1}, "why"), "d": [Noted("x", "one"), Noted([1], "two")]}
    )
    assert text == "a: 3  # choose\nb:  # why\n  c: 1\nd:\n  - x  # one\n  -  # two\n    - 1\n"
    assert yaml.safe_load(text) == {"a": 3, "b": {"c": 1}, "d": ["x", [1]]}


def test_every_line_of_a_comment_is_one() -> None:
    text = comment("fleetrun train.py 'two\nlines\x0bof it\u2028end'")
    assert all(line.startswith("#") for line in text.splitlines())
