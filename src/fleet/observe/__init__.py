"""What a person sees of a running job: progress, log lines, waits and stalls, figures, and what was done when.

Ask `progress` and `report` in a script; `waiting` for a wait that speaks, `logs` for log lines; `metrics/` for figures,
`tracing/` for traces, `stall/` for what stands still. Files that fleetrun reads are `fleet.jobfiles`.
"""

from fleet.observe.bar import progress
from fleet.observe.metrics.reports import report

__all__ = ["progress", "report"]
