"""What a server tells fleetrun of itself, once a second: read from what it counts anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from fleet.observe import trace_files
from fleet.observe.metrics import writer
from fleet.observe.metrics.registry import Sample, registry
from fleet.observe.metrics.writer import begin, is_on
from fleet.ps.wire.traced import prepare

if TYPE_CHECKING:
    from fleet.ps.server.service import Service
    from fleet.ps.wire.transport import Handler

_COUNTS = {
    "pulls": "fleet_server_pulls_total",
    "pulled_rows": "fleet_server_pulled_rows_total",
    "pushes": "fleet_server_pushes_total",
    "pushed_rows": "fleet_server_pushed_rows_total",
    "repeated_pushes": "fleet_server_repeated_pushes_total",
    "skipped": "fleet_server_skipped_total",
}


class ServerFigures:
    """The figures of one service."""

    def __init__(self, service: Service, refused: Callable[[], Mapping[str, int]] = dict) -> None:
        self._service = service
        self._refused = refused

    def read(self) -> Iterator[Sample]:
        """All figures; called by the thread that writes them."""
        core = self._service.core
        state, stats = core.state, core.state.stats
        counts = stats.counts()
        for name, figure in _COUNTS.items():
            yield Sample(figure, counts[name])
        yield Sample("fleet_server_shrunk_rows_total", stats.shrunk_rows)
        yield Sample("fleet_server_staleness_steps", stats.staleness.read())
        if stats.last_push_at:
            yield Sample("fleet_server_last_push_timestamp_seconds", stats.last_push_at)
        for part, seconds in stats.parts().items():
            yield Sample("fleet_server_part_seconds_total", seconds, {"part": part})
        for why, calls in self._refused().items():
            yield Sample("fleet_server_refused_calls_total", calls, {"why": why})
        native = {} if stats.native is None else stats.native()
        yield Sample("fleet_server_connections", native.get("connections", 0))
        yield Sample("fleet_server_refused_connections_total", native.get("refused", 0))
        if core.durability is not None:
            written, (lag_bytes, unsynced) = core.durability.counts(), core.durability.lag
            yield Sample("fleet_server_journal_bytes_total", written["bytes"])
            yield Sample("fleet_server_journal_records_total", written["record"])
            yield Sample("fleet_server_snapshots_total", written["snapshots"])
            yield Sample("fleet_server_journal_lag_bytes", lag_bytes)
            yield Sample("fleet_server_journal_unsynced_records", unsynced)
            scrub = core.durability.scrub
            yield Sample("fleet_server_scrubbed_bytes_total", scrub.num_bytes)
            yield Sample("fleet_server_damaged_files", len(scrub.damaged))
        standby = self._service.standby
        if standby is not None and (copies := standby.copies) is not None:
            records, behind_s = copies.lag
            yield Sample("fleet_server_copy_whole", int(copies.is_bound))
            yield Sample("fleet_server_copy_behind_records", records)
            yield Sample("fleet_server_copy_behind_seconds", behind_s)
        if (running := self._service.publishing.running) is not None:
            yield Sample("fleet_server_publish_lag_seconds", running.lag_s)
            yield Sample("fleet_server_published_batches_total", running.num_batches)
            yield Sample("fleet_server_published_bytes_total", running.num_bytes)
            yield Sample("fleet_server_published_bases_total", running.num_bases)
            yield Sample("fleet_server_publish_failures_total", running.num_failures)
        holdings = state.holdings
        if holdings is None:
            return
        with core.changed:
            version, waiting = state.rounds.version, len(state.rounds.pushed())
            missing = len(state.rounds.missing()) if holdings.job.mode == "sync" and waiting else 0
        yield Sample("fleet_server_version", version)
        yield Sample("fleet_server_waiting_pushes", waiting)
        yield Sample("fleet_server_missing_pushes", missing)
        for table in holdings.tables:
            label = {"table": table.name}
            yield Sample("fleet_table_rows", len(table), label)
            yield Sample("fleet_table_memory_bytes", table.memory_bytes, label)
            yield Sample("fleet_table_waiting_keys", table.num_waiting, label)
            if table.has_disk:
                tier = table.tier_counts()
                yield Sample("fleet_table_disk_rows", tier["cold_rows"], label)
                yield Sample("fleet_table_disk_bytes", tier["disk_bytes"], label)
                yield Sample("fleet_table_spilled_rows_total", tier["spilled_rows"], label)


def watch(service: Handler, refused: Callable[[], Mapping[str, int]] = dict) -> None:
    """Have the figures of a service written, if this process writes figures, with the calls that its port refused."""
    from fleet.ps.server.service import Service

    if is_on() and isinstance(service, Service):
        registry.add(ServerFigures(service, refused).read)
        begin()
        prepare()


def tell_last() -> None:
    """Write down what was counted and traced and not yet written: the process may end now."""
    writer.flush()
    trace_files.flush()
