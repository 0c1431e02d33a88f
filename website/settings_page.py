"""Writes docs/migrate/settings.md: `python website/settings_page.py > docs/migrate/settings.md`."""

from __future__ import annotations

from collections.abc import Iterator

from strategy_page import theme

from fleet.json_form import shown
from fleet_paddle.strategies.not_built import NOT_BUILT, Names, NotBuilt
from fleet_paddle.strategies.program_strategy import ProgramFields

INTRODUCTION = """\
# Settings of PaddlePaddle

The strategies of `fleet-paddle` have every field of [fleet.DistributedStrategy](../strategy.md), and these. This page
is made by `make docs`; edit the declarations in `compat/src/fleet_paddle/strategies/` instead.
"""

NOT_BUILT_HEAD = """
## Not built

Each of these reads as its default, and may be set to it, in code and in files. Another value is refused with the last
column: by the strategies of version 1.x at the line that sets it, by `paddle.distributed.fleet.DistributedStrategy`
when the strategy is used. `*` is the name of a table; `fleet_desc_configs` is another name of `sparse_table_configs`.

| setting | default | instead |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    programs = theme("Compiling and running programs", ProgramFields)
    return INTRODUCTION + programs + NOT_BUILT_HEAD + "".join(_not_built())


def _not_built(names: Names = NOT_BUILT, group: str = "") -> Iterator[str]:
    for name, found in names.items():
        if isinstance(found, NotBuilt):
            yield f"| `{group}{name}` | `{shown(found.default)}` | {found.instead} |\n"
        elif name != "fleet_desc_configs":
            yield from _not_built(found, f"{group}{name}.")


if __name__ == "__main__":
    print(page(), end="")
