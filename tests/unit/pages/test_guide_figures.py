"""Figures of the guides are those of the pages that other tests compare with results files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks" / "results"
SOURCES = ("benchmarks.md", "gpu.md", "large_tables.md", "guarantees.md", "adr/0029-a-cache-and-no-replicas.md")
NUMBER = re.compile(r"\d+(?:,\d{3})+|\d+\.\d+|\d{2,}")


def figures(text: str) -> set[str]:
    """Numbers of two digits and more, but for those in links and code."""
    return set(NUMBER.findall(re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)))


def known() -> set[str]:
    return set(NUMBER.findall("\n".join((DOCS / page).read_text() for page in SOURCES)))


def test_every_figure_behind_advice_stands_on_a_page_of_results() -> None:
    rows = re.findall(r"^\| \*\*.*?\|.*?\|(.*)\|$", (DOCS / "sizing.md").read_text(), flags=re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        missing = figures(row) - known()
        assert not missing, f"docs/sizing.md: {sorted(missing)} in {row}"


@pytest.mark.parametrize("page", ["sizing.md", "fault_tolerance.md", "compare.md"])
def test_results_that_are_linked_to_exist(page: str) -> None:
    found = re.findall(r"benchmarks/results/(\w+\.json)", (DOCS / page).read_text())
    assert found
    assert all((RESULTS / name).exists() for name in found)


def test_the_speeds_of_the_comparison() -> None:
    def speeds(name: str) -> dict[str, str]:
        cases = json.loads((RESULTS / f"{name}.json").read_text())["cases"]
        return {
            case["case"]: f"{round(value, -2):,.0f}"
            for case in cases
            for field, value in case.items()
            if field.startswith("median_")
        }

    then, now = speeds("ctr"), speeds("ctr_2_cores")
    page = " ".join((DOCS / "compare.md").read_text().split())
    assert (
        f"| {then['fleet async']} async, {then['fleet sync']} sync | {then['TorchRec, sync, dim 12']} sync | "
        f"{then['DDP, sync']} sync | {then['TensorFlow PS, async']} async | {then['Paddle 2.6, async']} async (2.6) |"
    ) in page
    newest = f"Fleet {now['fleet async']} async and {now['fleet sync']} sync, TorchRec {now['TorchRec, sync, dim 12']}"
    assert newest in page
