"""Figures of pages are those of the results files that they name (website/figures.py)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "website"))
try:
    import figures
finally:
    sys.path.remove(str(ROOT / "website"))

MARKED = [page for page in figures.pages() if "<!--=" in page.read_text()]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_figures_of_a_page_are_current(page: Path) -> None:
    text = page.read_text()
    assert figures.current(text) == text, "run make docs"
    assert text.count("<!--=") == len(figures.MARKER.findall(text)), "a marker has no end"
    assert all("|" not in marker[2] for marker in figures.MARKER.findall(text)), "a | would end the cell of a table"


def test_every_figure_beside_its_results_in_the_readme_says_where_it_is_from() -> None:
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if "(benchmarks/results/" in line]
    assert len(rows) == 5
    for row in rows:
        unmarked = figures.MARKER.sub("", row.split("|")[2])
        assert re.findall(r"\d+", unmarked) == [], row


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1<!--= ctr_2_cores[fleet async] ~100 -->", "55,100"),
        ("0.0<!--= recovery[#0].recovery_s.max -->", "2.2"),
        ("0%<!--= tls[async].cpu_ms_per_batch[TLS] / tls[async].cpu_ms_per_batch.plain - 1 -->", "8%"),
        ("1<!--= gpu_ctr[fleet, cache; 1000] / 1000 -->", "176"),
        ("1.00<!--= 2 * (1 + 3) / 16 -->", "0.50"),
    ],
)
def test_a_figure_is_written_as_its_marker_says(text: str, wanted: str) -> None:
    assert figures.current(text).partition("<!--")[0] == wanted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<!--= ctr[fleet async] -->", "no number stands before"),
        ("1<!--= nothing[x] -->", r"names nothing\.json, which is not in benchmarks/results"),
        ("1<!--= ctr[fleet] -->", "asks for 'fleet', of which there are 0"),
        ("1<!--= gpu_ctr[fleet] -->", "asks for 'fleet', of which there are 2"),
        ("1<!--= ctr[fleet async].cpu_s -->", "comes to no number"),
        ("1<!--= table_fill[#99] -->", "asks for '#99', of which there are 0"),
        ("1<!--= table_fill[#0].rows.more -->", "asks for 'more', of which there are 0"),
        ("1<!--= (1 + 2 -->", r"lacks a \)"),
        ("1<!--= 1 + -->", "lacks a number or a place"),
        ("1<!--= 1 2 -->", "where it should end"),
        ("1<!--= __import__('os') -->", "no place, number or operator"),
    ],
)
def test_a_marker_that_is_wrong_is_named(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        figures.current(text)
