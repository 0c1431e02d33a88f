"""What a person sees of a running job: progress, and the exception that ended it."""

from fleet.observe.bar import progress
from fleet.observe.crash import record_crash

__all__ = ["progress", "record_crash"]
