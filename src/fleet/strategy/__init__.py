"""The strategy: every option of distributed training, typed, documented and checked when set.

    check.py             what a value must be
    field.py             one field: default, check, meaning
    record.py            fields together; a group also reads as a mapping and takes a dict
    parameter_server.py, collective.py, training.py, parallel.py
                         the fields, one file per theme: what is declared is honoured
    mode.py              the parameter-server modes and the fields that choose them
    strategy.py          DistributedStrategy, made of all of them
    text.py              save and load

To build a feature, declare its fields, and take its lines out of `fleet_paddle.strategies.not_built`; then `make docs`.
"""

from fleet.strategy.mode import Mode
from fleet.strategy.strategy import DistributedStrategy

__all__ = ["DistributedStrategy", "Mode"]
