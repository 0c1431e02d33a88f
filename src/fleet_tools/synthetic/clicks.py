"""`Clicks`: samples by number, made when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet import _native
from fleet.checks import count_of
from fleet.data.columns.records import Batch
from fleet.data.columns.schema import Schema, criteo
from fleet.errors import UsageError, UsageTypeError
from fleet_tools.synthetic.files import write_files

NUMBERS, SLOTS = 13, 26
VOCABULARIES = (
    *(1_500, 600, 2_000_000, 1_000_000, 300, 24, 12_000, 600, 3, 90_000, 5_700, 1_500_000, 3_200),
    *(27, 15_000, 1_200_000, 10, 5_600, 2_200, 4, 1_800_000, 18, 15, 280_000, 105, 140_000),
)
"""How many ids each slot has: about those of Criteo's logs, the largest made smaller."""
GAPS = (
    *(0.45, 0, 0.21, 0.22, 0.03, 0.22, 0.04, 0, 0.04, 0.45, 0.04, 0.76, 0.22),
    *(0, 0, 0.03, 0.03, 0, 0.12, 0, 0, 0, 0, 0, 0.03, 0, 0, 0, 0.03, 0, 0, 0.44, 0.44, 0.03, 0.76, 0, 0.03, 0.44, 0.44),
)
"""The share of samples without a value, of each number and each slot."""
MOST_SAMPLES = 1 << 62
_CHUNK = 65_536


class Clicks:
    """`num_samples` clicks and non-clicks; sample i depends on the settings and i alone, on every machine.

    A worker can make any of them, so there is nothing to download or to divide: `clicks[first:last]` is a
    `fleet.data.Batch` with the ids and numbers that `fleet.data.criteo()` reads from the files of `write`.

    `vocabularies` has the number of ids for each of the 26 slots, which come as often as Zipf's law with `exponent`
    says. `gaps` has the share of gaps for each of the 13 numbers and 26 slots, or one share for all.
    `click_rate` is the share of clicks. `signal` says how much the columns tell: with 0 a click is chance, and the AUC
    at best 0.5; with 1 it is about 0.82.
    """

    def __init__(
        self,
        num_samples: int = 2_000_000,
        seed: int = 0,
        *,
        vocabularies: Sequence[int] | None = None,
        exponent: float = 1.1,
        gaps: float | Sequence[float] | None = None,
        click_rate: float = 0.25,
        signal: float = 1.0,
    ) -> None:
        self.num_samples = count_of("num_samples", num_samples, least=0)
        if num_samples > MOST_SAMPLES:
            raise UsageError(f"samples have numbers up to 2^62, got num_samples={num_samples}")
        self.settings: dict[str, Any] = {
            "seed": count_of("seed", seed, least=0),
            "vocabularies": list(VOCABULARIES if vocabularies is None else vocabularies),
            "gaps": [gaps] * (NUMBERS + SLOTS)
            if isinstance(gaps, int | float)
            else list(GAPS if gaps is None else gaps),
            "exponent": exponent,
            "click_rate": click_rate,
            "signal": signal,
        }
        """What makes two generators the same, but for the number of samples."""
        try:
            self._native = _native.Clicks(**self.settings)
        except TypeError as error:
            raise UsageTypeError(f"Clicks: {error}") from error
        except ValueError as error:
            raise UsageError(f"Clicks: {error}") from error

    def __len__(self) -> int:
        return self.num_samples

    def __repr__(self) -> str:
        return f"Clicks({self.num_samples:,} samples, seed {self.settings['seed']})"

    @property
    def schema(self) -> Schema:
        """What reads the files of `write`."""
        return criteo()

    def __getitem__(self, samples: Any) -> Batch:
        """Samples `first` to `last`: `clicks[first:last]`."""
        if not isinstance(samples, slice) or samples.step not in (None, 1):
            raise UsageTypeError(f"Clicks are taken in ranges, clicks[first:last], got {samples!r}")
        first, last, _ = samples.indices(self.num_samples)
        return self._batch(first, max(first, last))

    def batches(self, batch_size: int, first: int = 0, last: int | None = None) -> Iterator[Batch]:
        """Samples `first` to `last` in batches; the last may be smaller."""
        batch_size = count_of("batch_size", batch_size)
        first, last = self._range(first, last)
        return (self._batch(place, min(place + batch_size, last)) for place in range(first, last, batch_size))

    def probabilities(self, first: int = 0, last: int | None = None) -> npt.NDArray[np.float64]:
        """The true probability of a click, of samples `first` to `last`."""
        first, last = self._range(first, last)
        found = [self._native.probabilities(*part)[0] for part in _parts(first, last)]
        return np.concatenate(found) if found else np.empty(0)

    def ceiling(self, first: int = 0, last: int | None = None) -> float:
        """The AUC of the true probabilities on samples `first` to `last`: no model does better, but for luck."""
        first, last = self._range(first, last)
        found = [self._native.probabilities(*part) for part in _parts(first, last)]
        if not found:
            return math.nan
        return _exact_auc(np.concatenate([one for one, _ in found]), np.concatenate([label for _, label in found]) > 0)

    def write(
        self,
        folder: str | Path,
        files: int = 8,
        format: str = "tsv",
        compression: str | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        threads: int | None = None,
        enabled: bool = True,
    ) -> list[Path]:
        """Write samples `first` to `last` into `files` files of a folder, about as many each; their paths, in order.

        Text is as Criteo has it; Parquet has columns `label`, `I1` to `I13` and `C1` to `C26`. `compression` is "gz" or
        "zst" for text, and a codec of pyarrow's for Parquet. A file has its name when it is complete. What was written
        before with the same settings is found again, and not written twice. `enabled`: with a progress bar.
        """
        first, last = self._range(first, last)
        return write_files(
            self._native,
            Path(folder),
            {**self.settings, "first": first, "last": last},
            files=count_of("files", files),
            format=format,
            compression=compression,
            threads=threads,
            shows=enabled,
        )

    def _batch(self, first: int, last: int) -> Batch:
        label, dense, ids = self._native.batch(first, last)
        return Batch(torch.from_numpy(label), torch.from_numpy(dense), torch.from_numpy(ids), {}, None)

    def _range(self, first: int, last: int | None) -> tuple[int, int]:
        first = count_of("first", first, least=0)
        last = self.num_samples if last is None else count_of("last", last, least=0)
        if not first <= last <= self.num_samples:
            raise UsageError(f"samples are from 0 to {self.num_samples}, got first={first}, last={last}")
        return first, last


def _parts(first: int, last: int) -> Iterator[tuple[int, int]]:
    return ((place, min(place + _CHUNK, last)) for place in range(first, last, _CHUNK))


def _exact_auc(scores: npt.NDArray[np.float64], is_click: npt.NDArray[np.bool_]) -> float:
    """By sorting; ties count half."""
    values, inverse = np.unique(scores, return_inverse=True)
    positives = np.bincount(inverse[is_click], minlength=len(values))
    negatives = np.bincount(inverse[~is_click], minlength=len(values))
    below = np.cumsum(negatives) - negatives / 2
    pairs = float(positives.sum()) * float(negatives.sum())
    return float(positives @ below) / pairs if pairs else math.nan
