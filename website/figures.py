"""Figures on pages, from the results files: `make docs` writes each anew, and a test finds those that are not current.

A figure says where it comes from in a comment behind it, which nobody sees on the site or on a code host:

    Fleet reaches 55,100<!--= ctr_2_cores[fleet async] ~100 --> samples/s, at 83%<!--= a[x] / b[y] --> of its cost

`ctr_2_cores[fleet async]` is the one case of benchmarks/results/ctr_2_cores.json in which a field has that value;
`[fleet async; 1000]` asks for two values. Of a case without a field it is the only `median_...`. `.name` and `[name]`
go further in; `.min`, `.max` and `.median` are those of a list; `[#3]` is the fourth case. `+ - * /`, brackets and
numbers work as usual, and `~100` rounds to hundreds. The figure keeps as many decimals as it is written with,
and before `%` it is a hundred times the value.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARKER = re.compile(r"(\d[\d,]*(?:\.\d+)?)?(%?)<!--= (.*?) -->", re.DOTALL)
TOKEN = re.compile(r"\s*(?:([A-Za-z]\w*(?:\[[^\]]*\]|\.\w+)*)|(\d+(?:\.\d+)?(?:e\d+)?)|([-+*/()~]))")
STEP = re.compile(r"\[([^\]]*)\]|\.(\w+)")
OF_A_LIST: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max, "median": statistics.median}


def pages() -> list[Path]:
    """Every page that may have figures."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])


def current(text: str) -> str:
    """A page's text with the figures of today's results files."""
    return MARKER.sub(lambda found: f"{written(found)}<!--= {found[3]} -->", text)


def written(marker: re.Match[str]) -> str:
    """The figure in front of a marker, as it has to be."""
    before, percent, expression = marker.groups()
    if before is None:
        raise ValueError(
            f"no number stands before <!--= {expression} -->; write one with as many decimals as it shall have"
        )
    num_decimals = len(before.partition(".")[2])
    return f"{Expression(expression).value() * (100 if percent else 1):,.{num_decimals}f}{percent}"


class Expression:
    """A marker's text: sums of products of numbers and of places in results files."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self.tokens: list[tuple[str, str, str]] = TOKEN.findall(self.text)
        if re.sub(r"\s+", "", TOKEN.sub("", self.text)):
            raise self.wrong("has something that is no place, number or operator")

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"<!--= {self.text} --> {what}; website/figures.py says what may stand there")

    def value(self) -> float:
        """What the whole of it comes to."""
        value = self.sum()
        if self.takes("~"):
            nearest = self.atom()
            value = round(value / nearest) * nearest
        if self.tokens:
            raise self.wrong(f"goes on with {''.join(self.tokens[0])!r} where it should end")
        return value

    def takes(self, operators: str) -> str:
        """The next operator, if it is one of these."""
        return self.tokens.pop(0)[2] if self.tokens and self.tokens[0][2] and self.tokens[0][2] in operators else ""

    def sum(self) -> float:
        value = self.product()
        while sign := self.takes("+-"):
            value += self.product() if sign == "+" else -self.product()
        return value

    def product(self) -> float:
        value = self.atom()
        while sign := self.takes("*/"):
            value = value * self.atom() if sign == "*" else value / self.atom()
        return value

    def atom(self) -> float:
        if self.takes("("):
            value = self.sum()
            if not self.takes(")"):
                raise self.wrong("lacks a )")
            return value
        place, number, _ = self.tokens.pop(0) if self.tokens else ("", "", "")
        if not place and not number:
            raise self.wrong("lacks a number or a place")
        return float(number) if number else self.looked_up(place)

    def looked_up(self, place: str) -> float:
        """The number at a place, for example `ctr[fleet async].median_samples_per_s`."""
        file = re.match(r"\w+", place)[0]  # type: ignore[index]  # TOKEN begins with one
        if not (RESULTS / f"{file}.json").exists():
            raise self.wrong(f"names {file}.json, which is not in benchmarks/results")
        found: Any = results(file)
        for case, name in STEP.findall(place):
            found = self.inner(found, case or name, is_file=found is results(file))
        if isinstance(found, dict):
            medians = [value for name, value in found.items() if name.startswith("median")]
            found = medians[0] if len(medians) == 1 else None
        if not isinstance(found, int | float):
            raise self.wrong(f"comes to no number at {place}")
        return found

    def inner(self, where: Any, name: str, is_file: bool) -> Any:
        """One step further in: a key, a case of a file or an item of a list."""
        if isinstance(where, dict) and name in where:
            return where[name]
        where = where["cases"] if is_file else where
        if isinstance(where, list) and name in OF_A_LIST:
            return OF_A_LIST[name](where)
        wanted = {one.strip() for one in name.split(";")}
        cases = [one for one in where if wanted <= {str(value) for value in one.values()}] if is_file else []
        if isinstance(where, list) and name.startswith("#"):
            cases = where[int(name[1:]) :][:1]
        if len(cases) != 1:
            raise self.wrong(f"asks for {name!r}, of which there are {len(cases)}")
        return cases[0]


@cache
def results(name: str) -> dict[str, Any]:
    """A results file."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


if __name__ == "__main__":
    for page in pages():
        text = page.read_text()
        try:
            now = current(text)
        except ValueError as error:
            sys.exit(f"{page.relative_to(ROOT)}: {error}")
        if now != text:
            page.write_text(now)
