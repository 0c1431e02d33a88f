"""What a person sees of a running job: progress, log lines, and the exception that ended it."""

from fleet.observe.bar import progress
from fleet.observe.metrics.reports import report

__all__ = ["progress", "report"]
