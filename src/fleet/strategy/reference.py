"""Writes docs/strategy.md from the declarations: `python -m fleet.strategy.reference > docs/strategy.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.strategy.collective import CollectiveFields
from fleet.strategy.common import CommonFields
from fleet.strategy.execution import ExecutionFields
from fleet.strategy.field import AnySpec, Spec, shown
from fleet.strategy.group import GroupField
from fleet.strategy.mode import MODES
from fleet.strategy.not_built import NOT_BUILT, Names, NotBuilt
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import ParameterServerFields
from fleet.strategy.record import StrategyRecord
from fleet.strategy.training import TrainingFields

THEMES: tuple[tuple[str, type[StrategyRecord]], ...] = (
    ("Every job", CommonFields),
    ("Parameter server", ParameterServerFields),
    ("Collective", CollectiveFields),
    ("The training step", TrainingFields),
    ("Dividing a model", ParallelFields),
    ("Compiling and running programs", ExecutionFields),
)

INTRODUCTION = """\
# Strategy reference

Every field of `fleet.DistributedStrategy`, as `help(fleet.DistributedStrategy)` shows them too, then the settings of
PaddlePaddle's strategy that [are not built](#not-built). This page is made by `make docs`; edit the declarations in
`src/fleet/strategy/` instead.

Read a description with the field's name as its subject. A field is checked when it is set. A list is kept as
a tuple. A group is assigned a dict, `strategy.amp_configs = {"incr_ratio": 3.0}`, which changes the given
fields, or set one by one, `strategy.amp_configs.incr_ratio = 3.0`. A default of `None` means "not set".

## Modes

Assigning `a_sync`, even its default, chooses a mode.

| mode | `a_sync` | `a_sync_configs.k_steps` | `a_sync_configs.half_async` |
|---|---|---|---|
"""

HEAD = "| field | accepts | default | meaning |\n|---|---|---|---|\n"

NOT_BUILT_HEAD = """
## Not built

Each of these reads as its default, and may be set to it, in code and in files; another value is refused at the line
that sets it, with the last column. `*` is the name of a table; `fleet_desc_configs` is another name of
`sparse_table_configs`.

| setting | default | instead |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    modes = "".join(f"| {mode} | {' | '.join(cells)} |\n" for mode, cells in MODES.items())
    themes = "".join(_theme(title, record) for title, record in THEMES)
    return INTRODUCTION + modes + themes + NOT_BUILT_HEAD + "".join(_not_built())


def _theme(title: str, record: type[StrategyRecord]) -> str:
    fields = "".join(_row(name, field) for name, field in record._members.items() if isinstance(field, Spec))
    groups = "".join(_group(name, one) for name, one in record._members.items() if isinstance(one, GroupField))
    return f"\n## {title}\n\n{HEAD}{fields}{groups}"


def _group(name: str, member: GroupField[Any]) -> str:
    rows = (_row(inner, field) for inner, field in member.group._members.items() if isinstance(field, Spec))
    return f"\n### {name}\n\n`{name}` {member.doc}\n\n{HEAD}{''.join(rows)}"


def _row(name: str, field: AnySpec) -> str:
    return f"| `{name}` | {field.check.wants} | `{shown(field.default)}` | {field.doc} |\n"


def _not_built(names: Names = NOT_BUILT, group: str = "") -> Iterator[str]:
    for name, found in names.items():
        if isinstance(found, NotBuilt):
            yield f"| `{group}{name}` | `{shown(found.default)}` | {found.instead} |\n"
        elif name != "fleet_desc_configs":
            yield from _not_built(found, f"{group}{name}.")


if __name__ == "__main__":
    print(page(), end="")
