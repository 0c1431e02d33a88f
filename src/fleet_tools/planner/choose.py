"""From facts and a question to a plan."""

from fleet.errors import UsageError
from fleet_tools.planner import collective, served
from fleet_tools.planner.facts import Question, Workload
from fleet_tools.planner.plan import Plan


def make_plan(workload: Workload, question: Question) -> Plan:
    """Choose how to train a workload on the machines of the question; UsageError if it names a table there is not."""
    names = {table.name for table in workload.tables}
    for name, number in question.rows.items():
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise UsageError(f"rows of table {name!r}: the model has no such table; its tables are: {known}")
        if number < 1:
            raise UsageError(f"rows of table {name!r} must be at least 1, got {number}")
    has_servers = bool(workload.tables) or not workload.is_collective
    choose = served.choose if has_servers else collective.choose
    return Plan(workload, question, choose(workload, question))
