"""The strategy: every option of distributed training, typed, documented and checked when set.

    check.py             what a value must be
    field.py             one field: default, check, meaning, built or not
    record.py, group.py  fields together; a group also reads as a mapping and takes a dict
    family.py            groups by name, one per table
    parameter_server.py, sparse_table.py, collective.py, training.py, parallel.py, execution.py
                         the declarations, one file per theme
    mode.py              the parameter-server modes and the fields that choose them
    strategy.py          DistributedStrategy, made of all of them
    support.py           the refusal of what is not built yet
    text.py              save and load
    reference.py         docs/strategy.md

To say that a feature is built, add `built=True` to the declarations of the fields it reads; for a
parameter-server mode, add the mode to BUILT_MODES in mode.py. Then make docs/strategy.md again:
`make docs`.
"""

from fleet.strategy.execution import BuildStrategy, ExecutionStrategy
from fleet.strategy.mode import Mode
from fleet.strategy.strategy import DistributedStrategy

__all__ = ["BuildStrategy", "DistributedStrategy", "ExecutionStrategy", "Mode"]
