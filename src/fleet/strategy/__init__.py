"""The strategy: every option of distributed training, typed, documented and checked when set.

    check.py             what a value must be
    field.py             one field: default, check, meaning
    record.py, group.py  fields together; a group also reads as a mapping and takes a dict
    parameter_server.py, collective.py, training.py, parallel.py, execution.py
                         the fields, one file per theme: what is declared is honoured
    not_built.py         the settings of PaddlePaddle that are not, and what to do instead
    support.py           how they are read and refused
    mode.py              the parameter-server modes and the fields that choose them
    strategy.py          DistributedStrategy, made of all of them
    text.py              save and load
    reference.py         docs/strategy.md

To build a feature, take its lines out of not_built.py and declare its fields; then make docs/strategy.md again:
`make docs`.
"""

from fleet.strategy.execution import BuildStrategy, ExecutionStrategy
from fleet.strategy.mode import Mode
from fleet.strategy.strategy import DistributedStrategy

__all__ = ["BuildStrategy", "DistributedStrategy", "ExecutionStrategy", "Mode"]
