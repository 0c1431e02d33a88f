"""How fast do files become tensors? Rows a second of one core, against pandas and pyarrow with hashing.

python benchmarks/data.py --json benchmarks/results/data.json

One thread each, and CPU seconds of the process: threads that a library starts of its own count as well. The file is in
the page cache. Every contestant makes the same of it: label [n], logarithms of the counts [n, 13], ids [n, 26].
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import torch
from data_parquet import parquet_case
from data_training import training
from harness import OURS, Timing, measure, versions, write_results
from rich.console import Console
from rich.table import Table

import fleet
from fleet.data.columns.blocks import Problems
from fleet.data.formats.hashing import hash_texts
from fleet.data.reading.from_files import format_of

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

SCHEMA = fleet.data.criteo()
NUMBERS, CATEGORIES = [f"I{n}" for n in range(1, 14)], [f"C{n}" for n in range(1, 27)]
BLOCK_BYTES = 4 << 20

# How many values each category of the Criteo challenge has, rounded.
VOCABULARIES = [1460, 580, 10_130_000, 2_200_000, 300, 24, 12_500, 630, 3, 93_000, 5700, 8_350_000, 3200, 27, 15_000]
VOCABULARIES += [5_460_000, 10, 5700, 2200, 4, 7_050_000, 18, 15, 286_000, 100, 143_000]


def write_criteo(path: Path, rows: int) -> None:
    """Rows in the format of the Criteo challenge: Zipf-like values, gaps in a fifth of the fields."""
    rng = np.random.default_rng(2024)

    def with_gaps(texts: npt.NDArray[Any]) -> list[str]:
        return np.where(rng.random(rows) < rng.uniform(0, 0.4), "", texts).tolist()  # type: ignore[no-any-return]

    columns: list[list[str]] = [(rng.random(rows) < 0.25).astype(int).astype(str).tolist()]
    largest = np.geomspace(30, 3_000_000, len(NUMBERS))
    columns += [with_gaps((np.floor(most ** rng.random(rows)) - 1).astype(int).astype(str)) for most in largest]
    for place, size in enumerate(VOCABULARIES):
        ranks = np.floor(float(size) ** rng.random(rows)).astype(np.uint64)
        scattered = (ranks * np.uint64(0x9E3779B97F4A7C15) + np.uint64(place)) >> np.uint64(32)
        columns.append(with_gaps(np.array([f"{value:08x}" for value in scattered.tolist()])))
    path.write_text("\n".join(map("\t".join, zip(*columns, strict=True))) + "\n")


def by_fleet(path: Path) -> Tensors:
    problems, form = Problems(), format_of(str(path), SCHEMA)
    batches = [SCHEMA.batch(form.read(block, problems)) for block in form.cut(str(path), BLOCK_BYTES)]
    return tuple(torch.cat([batch[part] for batch in batches]) for part in range(3))  # type: ignore[return-value, misc]


def tensors(label: Any, numbers: Any, ids: Sequence[Any]) -> Tensors:
    """The common end of all others: logarithms, and columns next to each other."""
    dense = np.nan_to_num(np.column_stack(numbers).astype(np.float32, copy=False))
    np.multiply(np.sign(dense), np.log1p(np.abs(dense)), out=dense)
    made = np.column_stack(ids).view(np.int64)
    return torch.from_numpy(np.array(label, np.float32)), torch.from_numpy(dense), torch.from_numpy(made)


def by_pandas(path: Path, text: str) -> Tensors:
    """`text`: the dtype of the categories. Gaps stay empty texts, which takes less time than NaN."""
    frame = pd.read_csv(
        path,
        sep="\t",
        header=None,
        names=["label", *NUMBERS, *CATEGORIES],
        dtype=dict.fromkeys(["label", *NUMBERS], "float32") | dict.fromkeys(CATEGORIES, text),
        keep_default_na=False,
        na_values={name: [""] for name in NUMBERS},
    )
    ids = [
        pd.util.hash_array(frame[name].array if text == "str" else frame[name].to_numpy(), categorize=False) ^ place
        for place, name in enumerate(CATEGORIES)
    ]
    return tensors(frame["label"], [frame[name].to_numpy() for name in NUMBERS], ids)


def read_arrow(path: Path, text: Any) -> Any:
    types = dict.fromkeys(["label", *NUMBERS], pa.float32()) | dict.fromkeys(CATEGORIES, text)
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=["label", *NUMBERS, *CATEGORIES], use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def by_arrow(path: Path, text: Any, hashed: Callable[[Any, str], npt.NDArray[Any]]) -> Tensors:
    table = read_arrow(path, text)
    ids = [np.concatenate([hashed(chunk, name) for chunk in table[name].chunks]) for name in CATEGORIES]
    return tensors(table["label"].to_numpy(), [table[name].to_numpy() for name in NUMBERS], ids)


def hash_texts_by_pandas(chunk: Any, name: str) -> npt.NDArray[Any]:
    made: npt.NDArray[Any] = pd.util.hash_array(chunk.to_numpy(zero_copy_only=False), categorize=False) ^ len(name)
    return made


def hash_dictionary(chunk: Any, name: str) -> npt.NDArray[Any]:
    made: npt.NDArray[Any] = hash_texts_by_pandas(chunk.dictionary, name)[chunk.indices.to_numpy()]
    return made


def hash_by_fleet(chunk: Any, name: str) -> npt.NDArray[Any]:
    _, ends, text = chunk.buffers()
    offsets = np.frombuffer(ends, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    return hash_texts(name, np.frombuffer(text, np.uint8), offsets)


def criteo_text(folder: Path, rows: int, repeats: int) -> dict[str, Any]:
    """A file of the Criteo challenge: `pandas.read_csv` and `pyarrow.csv`, each with the ways to hash that suit it."""
    path = folder / "criteo.tsv"
    write_criteo(path, rows)
    dictionary = pa.dictionary(pa.int32(), pa.string())
    contestants: dict[str, Callable[[], Tensors]] = {
        "fleet": lambda: by_fleet(path),
        "pandas, object, hash_array": lambda: by_pandas(path, "object"),
        "pandas, str, hash_array": lambda: by_pandas(path, "str"),
        "pyarrow, string, hash_array": lambda: by_arrow(path, pa.string(), hash_texts_by_pandas),
        "pyarrow, dictionary, hash_array": lambda: by_arrow(path, dictionary, hash_dictionary),
        "pyarrow, string, Fleet's hash": lambda: by_arrow(path, pa.string(), hash_by_fleet),
    }
    check_same(contestants)
    timings = measure(contestants, repeats=repeats, warmup=1, clock=time.process_time)
    return result("Criteo text", rows, timings, size_bytes=path.stat().st_size)


def check_same(contestants: dict[str, Callable[[], Tensors]]) -> None:
    """All make the same: labels, numbers, and as many distinct ids; with the same hash the same ids."""
    label, dense, ids = contestants["fleet"]()
    for name, call in contestants.items():
        others = call()
        torch.testing.assert_close(others[0], label, rtol=0, atol=0, msg=name)
        torch.testing.assert_close(others[1], dense, rtol=1e-6, atol=1e-6, msg=name)
        for column in range(len(CATEGORIES)):
            assert len(others[2][:, column].unique()) == len(ids[:, column].unique()), (name, column)
        if "Fleet" in name:
            torch.testing.assert_close(others[2], ids, rtol=0, atol=0, msg=name)


def result(case: str, rows: int, timings: dict[str, Timing], **more: Any) -> dict[str, Any]:
    ours = timings["fleet"]
    return {
        "case": case,
        "rows": rows,
        **more,
        "rows_per_s": {who: rows / timing.median_s for who, timing in timings.items()},
        "times_faster_than": {who: t.median_s / ours.median_s for who, t in timings.items() if who != "fleet"},
        "timings": {who: timing.to_json() for who, timing in timings.items()},
    }


def criteo_columns(folder: Path, rows: int, repeats: int) -> dict[str, Any]:
    """The same data in Parquet and Arrow."""
    write_criteo(folder / "criteo.tsv", rows)
    return parquet_case(folder / "criteo.tsv", repeats)


CASES: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "text": criteo_text,
    "parquet": criteo_columns,
    "training": training,
}
"""One function a case; it is given an empty folder, a number of rows and one of repetitions."""


def show(console: Console, case: dict[str, Any]) -> None:
    table = Table(title=f"{case['case']}, {case['rows']:,} rows, one core", title_justify="left")
    for heading, justify in (("", "left"), ("rows/s", "right"), ("spread", "right"), ("fleet is faster by", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for who, rate in case["rows_per_s"].items():
        times = case["times_faster_than"].get(who)
        spread = f"±{case['timings'][who]['spread'] * 50:.0f}%"
        table.add_row(who, f"{rate:,.0f}", spread, "" if times is None else f"{times:.1f} x")
    console.print(table)


@click.command(help=__doc__)
@click.option("--rows", default=200_000, show_default=True)
@click.option("--repeats", default=7, show_default=True)
@click.option("--only", type=click.Choice(list(CASES)), multiple=True, help="Run these cases only.")
@click.option("--json", "results", type=click.Path(path_type=Path), help="Write the results file here.")
def main(rows: int, repeats: int, only: tuple[str, ...], results: Path | None) -> None:
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    console, cases = Console(), []
    for name in only or CASES:
        with tempfile.TemporaryDirectory() as folder:
            cases.append(CASES[name](Path(folder), rows, repeats))
        show(console, cases[-1])
    if results is not None:
        packages = versions((OURS, "torch", "numpy", "pandas", "pyarrow"))
        write_results(results, cases, versions=packages, clock="CPU seconds of the process, one thread")


if __name__ == "__main__":
    main()
