"""Writes docs/strategy.md from the declarations: `python website/strategy_page.py > docs/strategy.md`."""

from typing import Any

from fleet.json_form import shown
from fleet.strategy.collective import CollectiveFields
from fleet.strategy.common import CommonFields
from fleet.strategy.field import AnySpec, Spec
from fleet.strategy.mode import MODES
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import ParameterServerFields
from fleet.strategy.record import GroupField, StrategyRecord
from fleet.strategy.training import TrainingFields

THEMES: tuple[tuple[str, type[StrategyRecord]], ...] = (
    ("Every job", CommonFields),
    ("Parameter server", ParameterServerFields),
    ("Collective", CollectiveFields),
    ("The training step", TrainingFields),
    ("Dividing a model", ParallelFields),
)

INTRODUCTION = """\
# Strategy reference

Every field of `fleet.DistributedStrategy`, as `help(fleet.DistributedStrategy)` shows them too. The settings of
PaddlePaddle's strategy that it does not have, and what to use instead, have [a page](migrate/settings.md). This page is
made by `make docs`; edit the declarations in `src/fleet/strategy/` instead.

Read a description with the field's name as its subject. A field is checked when it is set. A list is kept as
a tuple. A group is assigned a dict, `strategy.amp_configs = {"incr_ratio": 3.0}`, which changes the given
fields, or set one by one, `strategy.amp_configs.incr_ratio = 3.0`. A default of `None` means "not set".

## Modes

Assigning `a_sync`, even its default, chooses a mode.

| mode | `a_sync` | `a_sync_configs.k_steps` | `a_sync_configs.half_async` |
|---|---|---|---|
"""

HEAD = "| field | accepts | default | meaning |\n|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    modes = "".join(f"| {mode} | {' | '.join(cells)} |\n" for mode, cells in MODES.items())
    return INTRODUCTION + modes + "".join(theme(title, record) for title, record in THEMES)


def theme(title: str, record: type[StrategyRecord]) -> str:
    """One section."""
    fields = "".join(_row(name, field) for name, field in record._members.items() if isinstance(field, Spec))
    groups = "".join(_group(name, one) for name, one in record._members.items() if isinstance(one, GroupField))
    table = f"\n{HEAD}{fields}" if fields else ""
    return f"\n## {title}\n{table}{groups}"


def _group(name: str, member: GroupField[Any]) -> str:
    rows = (_row(inner, field) for inner, field in member.group._members.items() if isinstance(field, Spec))
    return f"\n### {name}\n\n`{name}` {member.doc}\n\n{HEAD}{''.join(rows)}"


def _row(name: str, field: AnySpec) -> str:
    return f"| `{name}` | {field.check.wants} | `{shown(field.default)}` | {field.doc} |\n"


if __name__ == "__main__":
    print(page(), end="")
