"""The figures of a job as Prometheus reads them, by `prometheus_client`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet.observe.metrics.catalogue import FIGURES
from fleet.observe.metrics.registry import Sample, Spread
from fleet_tools.watching.picture import SeenProcess, read_picture

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def require_client() -> None:
    """UsageError where `prometheus_client` is missing."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise UsageError("--metrics_port needs prometheus_client; pip install torch-fleet[observe]") from None


def exposition(log_dir: Path) -> bytes:
    """All figures of the job whose log folder this is, in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(read_picture(log_dir).processes))
    return bytes(generate_latest(registry))


class _Collector:
    """Gives the figures of some processes, all samples of a name together."""

    def __init__(self, processes: Iterable[SeenProcess]) -> None:
        self._found: dict[str, list[tuple[SeenProcess, Sample]]] = {}
        for seen in processes:
            for sample in _samples(seen):
                self._found.setdefault(sample.name, []).append((seen, sample))

    def describe(self) -> list[Metric]:
        """Nothing: all is known when it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One family for each name, in the order of the catalogue."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for name, figure in FIGURES.items():
            if name not in self._found:
                continue
            labels = ["role", "index", *figure.labels]
            families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
            family = families[figure.kind](name, figure.doc, labels=labels)
            for seen, sample in self._found[name]:
                values = [seen.role, seen.index, *(sample.labels[label] for label in figure.labels)]
                if isinstance(sample.value, Spread):
                    sums = list(accumulate(sample.value.counts))
                    bounds = [*(f"{bound:g}" for bound in sample.value.bounds), "+Inf"]
                    family.add_metric(values, list(zip(bounds, sums, strict=True)), sample.value.total)
                else:
                    family.add_metric(values, sample.value)
            yield family


def _samples(seen: SeenProcess) -> Iterator[Sample]:
    """The lines of one process; of one that has ended only that it has, for its figures are no more."""
    yield Sample("fleet_process_up", float(seen.is_up))
    yield Sample("fleet_process_restarts_total", float(seen.about.get("life") or 0))
    if not seen.is_up:
        return
    since = [float(wait["since"]) for wait in seen.about.get("waits") or ()]
    yield Sample("fleet_process_waiting_seconds", time.time() - min(since) if since else 0.0)
    if seen.written_at is not None:
        yield Sample("fleet_process_figures_age_seconds", max(0.0, time.time() - seen.written_at))
    yield from seen.samples
