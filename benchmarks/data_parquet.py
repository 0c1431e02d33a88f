"""Criteo's columns in Parquet and Arrow to tensors: a case of benchmarks/data.py, which writes the text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch
from harness import Timing, measure

import fleet
from fleet.data.columns.blocks import Problems
from fleet.data.reading.from_files import format_of

Tensors = tuple[torch.Tensor, ...]

SCHEMA = fleet.data.criteo()
NUMBERS, CATEGORIES = [one.name for one in SCHEMA.all_numbers], [one.name for one in SCHEMA.all_categories]
GROUP_ROWS = 1 << 16
PACKINGS = ("snappy", "zstd")


def table_of(text: Path) -> pa.Table:
    """Criteo text as a table with gaps: whole numbers and strings."""
    types = dict.fromkeys(["label", *NUMBERS], pa.int32()) | dict.fromkeys(CATEGORIES, pa.string())
    return pyarrow.csv.read_csv(
        text,
        read_options=pyarrow.csv.ReadOptions(column_names=["label", *NUMBERS, *CATEGORIES], use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True),
    )


def by_fleet(path: Path) -> Tensors:
    problems, files = Problems(), format_of(str(path), SCHEMA)
    batches = [SCHEMA.batch(files.read(block, problems)) for block in files.cut(str(path), 4 << 20)]
    return tuple(torch.cat([batch[part] for batch in batches]) for part in range(3))  # type: ignore[misc]


def by_pandas(path: Path) -> Tensors:
    """`pandas.read_parquet`, and its hash of each text."""
    frame = pd.read_parquet(path, use_threads=False)
    numbers = np.column_stack([frame[name].to_numpy(np.float32) for name in NUMBERS])
    ids = [pd.util.hash_array(frame[name].fillna("").to_numpy(object), categorize=False) for name in CATEGORIES]
    return _finished(frame["label"].to_numpy(np.float32), numbers, ids)


def by_arrow(path: Path) -> Tensors:
    """Text as dictionaries, as pyarrow reads them quickest, each value hashed once."""
    table = pq.read_table(path, use_threads=False, read_dictionary=CATEGORIES)
    numbers = np.column_stack([table[name].to_numpy().astype(np.float32) for name in NUMBERS])
    ids = []
    for name in CATEGORIES:
        parts = []
        for chunk in table[name].chunks:
            values = pd.util.hash_array(chunk.dictionary.to_numpy(zero_copy_only=False), categorize=False)
            values = np.append(values, np.uint64(0))  # a gap
            parts.append(values[chunk.indices.fill_null(len(values) - 1).to_numpy()])
        ids.append(np.concatenate(parts))
    return _finished(table["label"].to_numpy().astype(np.float32), numbers, ids)


def _finished(label: Any, dense: Any, ids: list[Any]) -> Tensors:
    dense = np.nan_to_num(dense)
    np.multiply(np.sign(dense), np.log1p(np.abs(dense)), out=dense)
    return torch.from_numpy(label), torch.from_numpy(dense), torch.from_numpy(np.column_stack(ids).view(np.int64))


def parquet_case(text: Path, repeats: int) -> dict[str, Any]:
    """Rows a second of one core. `text` is a file of the Criteo challenge; files are written beside it."""
    table = table_of(text)
    paths = {f"Parquet, {packing}": text.with_name(f"{packing}.parquet") for packing in PACKINGS}
    for packing in PACKINGS:
        pq.write_table(table, paths[f"Parquet, {packing}"], compression=packing, row_group_size=GROUP_ROWS)
    paths["Arrow IPC"] = text.with_name("plain.arrow")
    with pa.ipc.new_file(paths["Arrow IPC"], table.schema) as writer:
        writer.write_table(table, GROUP_ROWS)
    contestants: dict[str, Callable[[], Tensors]] = {}
    for name, path in paths.items():
        contestants[f"fleet, {name}"] = lambda path=path: by_fleet(path)  # type: ignore[misc]
    snappy = paths["Parquet, snappy"]
    contestants["pandas, Parquet, snappy"] = lambda: by_pandas(snappy)
    contestants["pyarrow, Parquet, snappy"] = lambda: by_arrow(snappy)
    _check(text, contestants)
    timings = measure(contestants, repeats=repeats, warmup=1, clock=time.process_time)
    return _result(table.num_rows, timings, {name: path.stat().st_size for name, path in paths.items()})


def _check(text: Path, contestants: dict[str, Callable[[], Tensors]]) -> None:
    """Ours are what the text gives, to the bit; the others have the same labels, numbers and as many ids."""
    label, dense, ids = by_fleet(text)
    for name, call in contestants.items():
        others = call()
        near = 0.0 if name.startswith("fleet") else 1e-6
        torch.testing.assert_close(others[0], label, rtol=0, atol=0, msg=name)
        torch.testing.assert_close(others[1], dense, rtol=near, atol=near, msg=name)
        if name.startswith("fleet"):
            torch.testing.assert_close(others[2], ids, rtol=0, atol=0, msg=name)
        for column in range(len(CATEGORIES)):
            assert len(others[2][:, column].unique()) == len(ids[:, column].unique()), (name, column)


def _result(rows: int, timings: dict[str, Timing], sizes: dict[str, int]) -> dict[str, Any]:
    ours = timings["fleet, Parquet, snappy"]
    return {
        "case": "Criteo in Parquet and Arrow",
        "rows": rows,
        "size_bytes": sizes,
        "rows_per_s": {who: rows / timing.median_s for who, timing in timings.items()},
        "times_faster_than": {who: t.median_s / ours.median_s for who, t in timings.items() if "fleet" not in who},
        "timings": {who: timing.to_json() for who, timing in timings.items()},
    }
