"""The figures of a server in Prometheus' text format, by `prometheus_client`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet_serve.doors.answers import BOUNDS_S, Answers

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def exposition(answers: Answers) -> bytes:
    """All figures; UsageError where `prometheus_client` is missing."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise UsageError("/metrics needs prometheus_client; pip install torch-fleet[observe]") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(answers))
    return bytes(generate_latest(registry))


class _Figures:
    """What has been asked, and how the model keeps up."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def describe(self) -> list[Metric]:
        """Nothing: all is known when it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every figure."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        counts, state = self._answers.counts, self._answers.state
        for name, doc, label, values in (
            ("fleet_serve_requests_total", "Lookups that were answered.", "door", counts.answered),
            ("fleet_serve_predictions_total", "Predictions that were answered.", "door", counts.predicted),
            ("fleet_serve_refused_total", "Requests that were refused.", "door", counts.refused),
            ("fleet_serve_keys_total", "Keys that were looked up.", "table", counts.keys),
            ("fleet_serve_unseen_total", "Keys without a row among them.", "table", counts.unseen),
        ):
            counter = CounterMetricFamily(name, doc, labels=[label])
            for key, count in list(values.items()):
                counter.add_metric([key], count)
            yield counter
        took = HistogramMetricFamily("fleet_serve_lookup_seconds", "What lookups took, without the way to the caller.")
        bounds = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
        took.add_metric([], list(zip(bounds, accumulate(counts.took), strict=True)), counts.took_s)
        yield took
        for name, doc, value in (
            ("fleet_serve_ready", "Whether requests may come.", float(not self._answers.why_not_ready())),
            (
                "fleet_serve_stale",
                "Whether the changes have stopped until another base is loaded.",
                bool(state.why_stale),
            ),
            (
                "fleet_serve_lag_seconds",
                "Age of the newest change that is served; -1: no job is followed.",
                state.lag_s,
            ),
        ):
            yield GaugeMetricFamily(name, doc, value=float(value))
        for name, doc, number in (
            ("fleet_serve_samples_total", "Samples that were predicted.", counts.samples),
            ("fleet_serve_predict_seconds_total", "What predictions took.", counts.predict_s),
            ("fleet_serve_batches_total", "Batches of changes that were taken.", state.num_batches),
            ("fleet_serve_bases_total", "Bases that were loaded.", state.num_bases),
            ("fleet_serve_failures_total", "Times that following failed, and began again.", state.num_failures),
        ):
            yield CounterMetricFamily(name, doc, value=number)
        if self._answers.has_model:
            model = self._answers.model()
            rows = GaugeMetricFamily("fleet_serve_rows", "Rows of the base.", labels=["table"])
            changed = GaugeMetricFamily("fleet_serve_changed_keys", "Keys changed since the base.", labels=["table"])
            for table in model.tables.values():
                rows.add_metric([table.name], len(table.base))
                changed.add_metric([table.name], model.num_changed(table.name))
            yield from (rows, changed)
            yield GaugeMetricFamily("fleet_serve_changed_bytes", "Memory of changes.", value=model.changed_bytes)
