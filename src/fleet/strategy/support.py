"""Refusal of fields whose feature is not built: an accepted option is an honoured one.

A field is supported when its declaration says `built=True`. Three fields only choose the parameter-server
mode, and are supported when that mode is in BUILT_MODES.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import NotSupportedError
from fleet.strategy.parameter_server import BUILT_MODES, MODE_FIELDS, Mode
from fleet.strategy.record import Leaf


def refuse_unbuilt(changed: Sequence[Leaf], mode: Mode) -> None:
    """NotSupportedError that names every field in `changed` that Fleet cannot honour."""
    asked = [] if mode in BUILT_MODES else _mode_choices(changed)
    asked += [
        (leaf.dotted, leaf.field.show(leaf.field.default))
        for leaf in changed
        if not leaf.field.built and leaf.dotted not in MODE_FIELDS
    ]
    if not asked:
        return
    names = ", ".join(f"strategy.{name}" for name, _ in asked)
    defaults = ", ".join(default for _, default in asked)
    if len(asked) == 1:
        raise NotSupportedError(f"{names} is set but not supported yet; leave it at its default ({defaults})")
    raise NotSupportedError(f"{names} are set but not supported yet; leave them at their defaults ({defaults})")


def _mode_choices(changed: Sequence[Leaf]) -> list[tuple[str, str]]:
    """The fields that chose the mode, as the user wrote them.

    `a_sync = True` equals the default yet chooses async mode, and it is what turned k_steps into 0. So a
    k_steps of 0 is reported as a_sync, whose only neutral state is not having been assigned.
    """
    names = {leaf.dotted: leaf for leaf in changed if leaf.dotted in MODE_FIELDS}
    k_steps = names.pop("a_sync_configs.k_steps", None)
    choices = []
    if "a_sync" in names or (k_steps is not None and k_steps.value == 0):
        names.pop("a_sync", None)
        choices.append(("a_sync", "unassigned"))
    if k_steps is not None and k_steps.value > 0:
        choices.append((k_steps.dotted, str(k_steps.field.default)))
    choices += [(name, leaf.field.show(leaf.field.default)) for name, leaf in names.items()]
    return choices
