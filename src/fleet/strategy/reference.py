"""Writes docs/strategy.md from the declarations: `python -m fleet.strategy.reference > docs/strategy.md`."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.strategy.collective import CollectiveFields
from fleet.strategy.execution import ExecutionFields
from fleet.strategy.family import FamilyField
from fleet.strategy.field import AnySpec, Member, Spec
from fleet.strategy.group import GroupField
from fleet.strategy.mode import BUILT_MODES, MODE_FIELDS, MODES, Mode
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import ParameterServerFields
from fleet.strategy.record import Record
from fleet.strategy.training import TrainingFields

THEMES: tuple[tuple[str, type[Record]], ...] = (
    ("Parameter server", ParameterServerFields),
    ("Collective", CollectiveFields),
    ("The training step", TrainingFields),
    ("Splitting a model", ParallelFields),
    ("Building and running", ExecutionFields),
)

TITLE = """\
# Strategy reference

"""

NOTHING_BUILT = """\
Fields are checked, saved and loaded today; none is honoured yet: one that is set is refused when the strategy is
used.

"""

INTRODUCTION = """\
Every field of `fleet.DistributedStrategy`, as `help(fleet.DistributedStrategy)` shows them too. This page is made by
`make docs`; edit the declarations in `src/fleet/strategy/` instead.

Read a description with the field's name as its subject. A field is checked when it is set. A list is kept as
a tuple. A group is assigned a dict, `strategy.amp_configs = {"incr_ratio": 3.0}`, which changes the given
fields, or set one by one, `strategy.amp_configs.incr_ratio = 3.0`.

**Built** says whether Fleet honours the field yet. Setting one that is not built to anything but its default
makes `strategy.require_supported()` raise an error that names it. `a_sync` is the exception: assigning it, even its
default, chooses a mode.

## Modes

| mode | `a_sync` | `a_sync_configs.k_steps` | `a_sync_configs.half_async` | built |
|---|---|---|---|---|
"""

HEAD = "| field | accepts | default | built | meaning |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    modes = (f"| {mode} | {' | '.join(cells)} | {_yes(mode in BUILT_MODES)} |\n" for mode, cells in MODES.items())
    themes = "".join(_theme(title, record) for title, record in THEMES)
    status = "" if _is_any_built() else NOTHING_BUILT
    return TITLE + status + INTRODUCTION + "".join(modes) + themes


def _is_any_built() -> bool:
    members = [member for _, record in THEMES for member in record._members.values()]
    for member in list(members):
        if isinstance(member, GroupField | FamilyField):
            members += member.group._members.values()
    return bool(BUILT_MODES - {Mode.OFF}) or any(isinstance(member, Spec) and member.built for member in members)


def _theme(title: str, record: type[Record]) -> str:
    members = record._members
    fields = "".join(_row(name, name, field) for name, field in members.items() if isinstance(field, Spec))
    groups = "".join("".join(_group(name, member)) for name, member in members.items())
    return f"\n## {title}\n\n{HEAD}{fields}{groups}"


def _group(name: str, member: Member) -> Iterator[str]:
    if isinstance(member, GroupField | FamilyField):
        yield f"\n### {name}\n\n`{name}` {member.doc}"
        if isinstance(member, FamilyField) and member.alias_of:
            yield "\n"
            return
        if isinstance(member, FamilyField):
            yield f' Each table has the fields below: `strategy.{name} = {{"my_table": {{...}}}}`.'
        yield f"\n\n{HEAD}"
        for field_name, field in member.group._members.items():
            assert isinstance(field, Spec)
            yield _row(f"{name}.{field_name}", field_name, field)


def _row(dotted: str, name: str, field: AnySpec) -> str:
    built = "by mode" if dotted in MODE_FIELDS else _yes(field.built)
    default = f"`{field.show(field.default)}`"
    return f"| `{name}` | {field.check.wants} | {default} | {built} | {field.doc} |\n"


def _yes(built: bool) -> str:
    return "yes" if built else "not yet"


if __name__ == "__main__":
    print(page(), end="")
