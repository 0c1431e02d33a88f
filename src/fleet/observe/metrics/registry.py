"""The figures of this process: whoever counts something says how to read it, and nothing is counted twice."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.observe.metrics.catalogue import FIGURES

_log = logging.getLogger(__name__)


class Spread(NamedTuple):
    """The value of a histogram: how many values were at most each bound, the last one without a bound."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Sample(NamedTuple):
    """One figure at one moment."""

    name: str
    value: float | Spread
    labels: Mapping[str, str] = {}

    def to_json(self) -> list[object]:
        """As it lies in a file."""
        value = self.value._asdict() if isinstance(self.value, Spread) else self.value
        return [self.name, dict(self.labels), value]

    @classmethod
    def from_json(cls, form: Sequence[object]) -> Sample:
        """What `to_json` gave; ValueError if it is not that."""
        try:
            name, labels, value = form
            known = FIGURES[str(name)]
            if not isinstance(labels, dict) or set(labels) != set(known.labels):
                raise ValueError(f"{name} has other labels")
            kept = {str(key): str(text) for key, text in labels.items()}
            if known.kind != "histogram":
                return cls(str(name), float(value), kept)  # type: ignore[arg-type]  # checked by float()
            if not isinstance(value, dict):
                raise ValueError(f"{name} is no histogram")
            bounds, counts = tuple(map(float, value["bounds"])), tuple(map(int, value["counts"]))
            if len(counts) != len(bounds) + 1:
                raise ValueError(f"{name} has {len(counts)} counts for {len(bounds)} bounds")
            return cls(str(name), Spread(bounds, counts, float(value["total"])), kept)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no figure of this version: {form!r:.80}") from error


def samples_of(figures: dict[str, Any]) -> list[Sample]:
    """The samples in a file of figures; those that this version does not know are left out."""
    found = []
    listed: Sequence[Any] = figures.get("samples") if isinstance(figures.get("samples"), list) else ()  # type: ignore[assignment]
    for form in listed:
        with contextlib.suppress(ValueError):
            found.append(Sample.from_json(form))
    return found


def flat(sample: Sample) -> dict[str, float]:
    """A sample as plain numbers, by name and labels; of a histogram its sum, count and two quantiles."""
    key = "|".join((sample.name, *sample.labels.values()))
    if not isinstance(sample.value, Spread):
        return {key: sample.value}
    spread = sample.value
    return {
        f"{key}|sum": spread.total,
        f"{key}|count": float(sum(spread.counts)),
        f"{key}|p50": quantile(spread, 0.5),
        f"{key}|p99": quantile(spread, 0.99),
    }


def quantile(spread: Spread, share: float) -> float:
    """The value below which this share lies, as if values were even between two bounds; 0 if there are none."""
    wanted, seen, below = share * sum(spread.counts), 0, 0.0
    for bound, count in zip((*spread.bounds, spread.bounds[-1]), spread.counts, strict=True):
        if count and seen + count >= wanted:
            return below + (bound - below) * (wanted - seen) / count
        seen, below = seen + count, bound
    return 0.0


def kept(samples: list[Sample]) -> dict[str, float]:
    """The numbers whose changes are kept."""
    found: dict[str, float] = {}
    for sample in samples:
        if FIGURES[sample.name].is_kept:
            found |= flat(sample)
    return found


class Histogram:
    """Counts values by size. One thread adds, or the caller locks; whoever reads may see a value half counted."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Spread:
        """What was counted so far."""
        return Spread(self._bounds, tuple(self._counts), self._total)


Source = Callable[[], Iterable[Sample]]


class Registry:
    """Where figures are read from when somebody wants them."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Read these figures too, from now on; it is called by a thread that is not the caller's."""
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """No more."""
        if source in self._sources:
            self._sources.remove(source)

    def read(self) -> list[Sample]:
        """All figures now; a source that fails leaves out its own, and what it counts goes on."""
        found: list[Sample] = []
        for source in list(self._sources):
            try:
                found += source()
            except Exception:
                _log.debug("figures of %r cannot be read", source, exc_info=True)
        return found


registry = Registry()
"""The registry of this process."""
