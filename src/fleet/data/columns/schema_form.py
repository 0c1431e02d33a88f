"""A schema as plain JSON, for a folder that is served: whoever reads it makes the ids that training made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from fleet.data.columns.derived import READY, Derived
from fleet.errors import UsageError


class PlainColumns:
    """Gives a schema `to_plain` and `from_plain`, which undo each other."""

    PARTS: ClassVar[tuple[type, ...]] = ()
    """The classes of its columns."""

    def to_plain(self) -> dict[str, Any]:
        """What `json.dumps` takes; UsageError where a function of one's own makes a column, which JSON cannot say."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self) if one.init}  # type: ignore[arg-type]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], where: str) -> Self:
        """What `to_plain` gave; UsageError if it is anything else, or of a later version."""
        kinds = {kind.__name__: kind for kind in cls.PARTS}
        try:
            return cls(**{name: _made(value, kinds) for name, value in plain.items()})
        except (TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"the schema of {where} is not one that this version of Fleet knows ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Derived):
        made_by: Any = value.function
        function, given = (made_by.func, made_by.args) if isinstance(made_by, partial) else (made_by, ())
        if (name := next((name for name, one in READY.items() if one is function), None)) is None:
            raise UsageError(
                f"derived column {value.name!r} has a function of its own, which a folder cannot hold; serve with that "
                "column made beforehand, or leave schema= out"
            )
        args = [np.asarray(one).tolist() for one in given]
        return {"derived": name, "name": value.name, "of": dict(value.of), "args": args}
    if is_dataclass(value):
        made = {part.name: _plain(getattr(value, part.name)) for part in fields(value) if part.init}
        return {"kind": type(value).__name__, **made}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _made(value: Any, kinds: Mapping[str, type]) -> Any:
    if not isinstance(value, dict):
        return [_made(one, kinds) for one in value] if isinstance(value, list) else value
    if "derived" in value:
        args = [np.array(one) if isinstance(one, list) else one for one in value["args"]]
        return Derived(value["name"], value["of"], partial(READY[value["derived"]], *args))
    return kinds[value["kind"]](**{name: _made(one, kinds) for name, one in value.items() if name != "kind"})
