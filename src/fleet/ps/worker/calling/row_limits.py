"""Tables declared for a number of ids: whether all servers together have more rows than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.worker.calling.pending import Answers


class RowLimits:
    """What a worker knows of the rows of tables with a limit; false where no table has one."""

    def __init__(self, job: JobSpec) -> None:
        self._limited = [spec for spec in job.tables if spec.max_rows]
        self._num_rows = [0] * len(self._limited)
        self.was_exceeded = False
        """Whether `check` has raised."""

    def __bool__(self) -> bool:
        return bool(self._limited)

    def note(self, answers: Answers) -> None:
        """Note what the answers to a push say, one per server."""
        self._num_rows = [sum(header.rows[index] for header, _ in answers) for index in range(len(self._limited))]

    def check(self) -> None:
        """UsageError if a table has more rows, on all servers, than it was declared for.

        A push is not checked when it is answered: it has been applied, and its answer must be taken over first.
        """
        for spec, num_rows in zip(self._limited, self._num_rows, strict=True):
            if num_rows > spec.max_rows:
                self.was_exceeded = True
                raise UsageError(
                    f"table {spec.name!r} is declared for {spec.max_rows} ids and now has rows for {num_rows}; end "
                    "this job, and raise its size, or train fewer distinct ids"
                )
