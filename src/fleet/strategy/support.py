"""Refusal of what is not built: an accepted option is an honoured one.

A field is supported when its declaration says `built=True`. MODE_FIELDS only choose the parameter-server mode,
and are supported when that mode is in BUILT_MODES.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fleet.errors import NotSupportedError
from fleet.strategy.mode import BUILT_MODES, MODE_FIELDS, Mode
from fleet.strategy.record import Leaf


def refuse_unbuilt(leaves: Sequence[Leaf], mode: Mode) -> None:
    """NotSupportedError that names the mode and every field of `leaves` that Fleet cannot honour."""
    choosing = [leaf for leaf in leaves if leaf.dotted in MODE_FIELDS]
    others = [leaf for leaf in leaves if leaf.dotted not in MODE_FIELDS]
    asked = [leaf for leaf in others if leaf.differs and not leaf.field.built]
    refusals = [] if mode in BUILT_MODES else [_refuse_mode(mode, choosing)]
    refusals += [_refuse_fields(asked)] if asked else []
    if refusals:
        raise NotSupportedError("; ".join(refusals))


def refuse_elsewhere(leaves: Sequence[Leaf], names: Collection[str], is_collective: bool) -> None:
    """NotSupportedError that names a field of `leaves` which belongs to the other kind of job (`names` are its)."""
    asked = [leaf for leaf in leaves if leaf.differs and leaf.path[0] in names]
    if not asked:
        return
    first = asked[0]
    if is_collective:
        raise NotSupportedError(
            f"strategy.{first.dotted} is for jobs with servers, and this one is collective; leave it at its default "
            f"({first.field.show(first.field.default)})"
        )
    raise NotSupportedError(
        f"strategy.{first.dotted} is for collective jobs; write fleet.init(is_collective=True), or leave it at its "
        f"default ({first.field.show(first.field.default)})"
    )


def _refuse_mode(mode: Mode, choosing: Sequence[Leaf]) -> str:
    """`a_sync` has no value that chooses no mode, so the remedy is about the other fields."""
    a_sync, *rest = choosing
    rest = [leaf for leaf in rest if leaf.differs]
    values = ", ".join(f"{leaf.dotted} = {leaf.value}" for leaf in (a_sync, *rest))
    remedy = " and ".join(f"strategy.{leaf.dotted} = {leaf.field.default}" for leaf in rest)
    return f"strategy chooses {mode} mode ({values}), which is not supported yet; set {remedy} to choose none"


def _refuse_fields(asked: Sequence[Leaf]) -> str:
    names = ", ".join(f"strategy.{leaf.dotted}" for leaf in asked)
    defaults = ", ".join(leaf.field.show(leaf.field.default) for leaf in asked)
    if len(asked) == 1:
        return f"{names} is set but not supported yet; leave it at its default ({defaults})"
    return f"{names} are set but not supported yet; leave them at their defaults ({defaults})"
