"""Every figure that a process of a job may give: its name for Prometheus, its kind, what it means.

A sample of another name is refused where it is made, so this page and docs/observe.md, which a test compares with it,
list all there are. Units are base units: seconds, bytes, and counts of what the name says.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    """Besides `role` and `index`, which say whose it is."""
    is_kept: bool = False
    """Whether fleetrun keeps how it changes, for the curves of the page."""


_ALL = (
    # Of every process, seen by fleetrun.
    Figure("fleet_process_up", "gauge", "1 while the process runs, else 0."),
    Figure("fleet_process_restarts_total", "counter", "How often it was started again in its place."),
    Figure("fleet_process_resident_memory_bytes", "gauge", "Memory of the process.", is_kept=True),
    Figure("fleet_process_cpu_seconds_total", "counter", "CPU time of the process.", is_kept=True),
    Figure("fleet_process_waiting_seconds", "gauge", "How long it has waited for others, once that is long; else 0."),
    Figure("fleet_process_figures_age_seconds", "gauge", "How long ago it wrote its figures."),
    Figure("fleet_process_gpu_memory_bytes", "gauge", "Of GPUs, by torch: allocated, reserved.", ("what",), True),
    Figure("fleet_process_gpu_utilisation_ratio", "gauge", "How busy its GPU is, where pynvml is installed.", (), True),
    # Of a worker.
    Figure("fleet_worker_steps_total", "counter", "Steps of the optimizer.", is_kept=True),
    Figure("fleet_worker_samples_total", "counter", "Samples trained on.", is_kept=True),
    Figure("fleet_worker_last_step_timestamp_seconds", "gauge", "When its last step ended, since 1970."),
    Figure("fleet_worker_step_seconds", "histogram", "From the end of one step to that of the next."),
    Figure(
        "fleet_worker_part_seconds_total",
        "counter",
        "Time of the training thread, by part of a step: data, route, pull, forward, backward, push, wait, dense, "
        "optimizer.",
        ("part",),
        is_kept=True,
    ),
    Figure("fleet_worker_beside_seconds_total", "counter", "Time of other threads, by the same parts.", ("part",)),
    Figure("fleet_worker_reported", "gauge", "What the script reports: the last value of each name.", ("name",), True),
    Figure("fleet_worker_ids_total", "counter", "Ids that were looked up, without padding."),
    Figure("fleet_worker_keys_total", "counter", "The distinct ones of each batch and table: what travels."),
    Figure("fleet_worker_cache_rows_total", "counter", "Rows of the cache, by what became of them.", ("what",)),
    Figure("fleet_worker_feed_records_total", "counter", "Of streams: read, late, dead (bad).", ("what",)),
    Figure("fleet_worker_feed_lag_seconds", "gauge", "How long ago the newest record happened.", (), True),
    Figure(
        "fleet_worker_reduced_bytes_total",
        "counter",
        "Handed to all-reduce: gradients, or parameters to average.",
        is_kept=True,
    ),
    Figure("fleet_worker_timed_all_reduces_total", "counter", "Reductions that the two times below are of."),
    Figure("fleet_worker_all_reduce_seconds_total", "counter", "From the first bucket's start to the last one's end."),
    Figure("fleet_worker_all_reduce_overlap_seconds_total", "counter", "Of that, while backward went on."),
    # Of a server.
    Figure("fleet_server_pulls_total", "counter", "Pulls that were answered.", is_kept=True),
    Figure("fleet_server_pulled_rows_total", "counter", "Rows in them.", is_kept=True),
    Figure("fleet_server_pushes_total", "counter", "Pushes that were taken.", is_kept=True),
    Figure("fleet_server_pushed_rows_total", "counter", "Rows in them.", is_kept=True),
    Figure("fleet_server_repeated_pushes_total", "counter", "Pushes that came again and were only acknowledged."),
    Figure("fleet_server_skipped_total", "counter", "Rows and dense groups left out, for they were not finite."),
    Figure("fleet_server_shrunk_rows_total", "counter", "Rows that shrink has deleted, in this life."),
    Figure("fleet_server_staleness_steps", "histogram", "Pushes between a worker's pull and its push.", is_kept=True),
    Figure(
        "fleet_server_part_seconds_total",
        "counter",
        "Time by what it went into: wait (for the last push of a step), apply (pushes to tables), answer (rows found "
        "and written).",
        ("part",),
    ),
    Figure("fleet_server_version", "gauge", "Steps that are complete or, outside sync mode, pushes applied."),
    Figure("fleet_server_waiting_pushes", "gauge", "Pushes that wait for the others of their step."),
    Figure("fleet_server_missing_pushes", "gauge", "Workers whose push the present step lacks."),
    Figure("fleet_server_last_push_timestamp_seconds", "gauge", "When it last took a push, since 1970."),
    Figure("fleet_server_connections", "gauge", "Connections of the data plane."),
    Figure("fleet_server_refused_connections_total", "counter", "Connections without the token."),
    Figure("fleet_server_refused_calls_total", "counter", "Calls of gRPC refused: token, memory.", ("why",)),
    Figure("fleet_server_journal_bytes_total", "counter", "Written to the journal in this life."),
    Figure("fleet_server_journal_records_total", "counter", "Records of the journal, of all lives."),
    Figure("fleet_server_journal_lag_bytes", "gauge", "Journal that a recovery would read after the last snapshot."),
    Figure(
        "fleet_server_journal_unsynced_records", "gauge", "Records that the disk may not have; 0 where left to the OS."
    ),
    Figure("fleet_server_scrubbed_bytes_total", "counter", "Read again of what it has on its disk, to find damage."),
    Figure("fleet_server_damaged_files", "gauge", "Files on its disk that are not what was written."),
    Figure("fleet_server_snapshots_total", "counter", "Snapshots taken in this life."),
    Figure("fleet_server_copy_whole", "gauge", "1 while a copy has all that the server has acknowledged, else 0."),
    Figure("fleet_server_copy_behind_records", "gauge", "Records of the journal that its copy lacks."),
    Figure("fleet_server_copy_behind_seconds", "gauge", "Since when the copy lacks some."),
    Figure("fleet_server_publish_lag_seconds", "gauge", "How far those who follow its changes are behind, at least."),
    Figure("fleet_server_published_batches_total", "counter", "Batches of changes, in this life."),
    Figure("fleet_server_published_bytes_total", "counter", "Their bytes.", is_kept=True),
    Figure("fleet_server_published_bases_total", "counter", "Bases that server 0 has completed, in this life."),
    Figure("fleet_server_publish_failures_total", "counter", "Tries to publish that failed, and were made again."),
    Figure("fleet_table_rows", "gauge", "Rows of a table on this server.", ("table",), is_kept=True),
    Figure("fleet_table_memory_bytes", "gauge", "Memory that they take.", ("table",), is_kept=True),
    Figure("fleet_table_waiting_keys", "gauge", "Keys that were seen and have no row yet.", ("table",)),
    Figure("fleet_table_disk_rows", "gauge", "Rows that lie on the disk.", ("table",)),
    Figure("fleet_table_disk_bytes", "gauge", "Their files.", ("table",)),
    Figure("fleet_table_spilled_rows_total", "counter", "Rows that had to leave memory for the disk.", ("table",)),
)

FIGURES = {figure.name: figure for figure in _ALL}
