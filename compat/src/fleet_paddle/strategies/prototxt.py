"""A strategy in the text format of protobuf: the file that `save_to_prototxt` writes and `load_from_prototxt` reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import text_format

from fleet.errors import FleetError, NotSupportedError, StrategyError
from fleet.strategy import DistributedStrategy
from fleet.strategy.text import write_text
from fleet_paddle.strategies.form import FORM, message_class
from fleet_paddle.strategies.support import not_built


def save(strategy: DistributedStrategy, path: str | os.PathLike[str]) -> None:
    """Write what somebody has set, atomically; NotSupportedError for a field that the format does not have."""
    write_text(path, to_text(strategy))


def to_text(strategy: DistributedStrategy) -> str:
    """What somebody has set, as text."""
    message = message_class()()
    for name, value in _set_fields(strategy):
        if name not in FORM:
            raise _foreign(name)
        if not isinstance(value, dict):
            _put(message, name, value)
            continue
        inner = getattr(message, name)
        inner.SetInParent()
        for field, one in value.items():
            if field not in FORM[name]:
                raise _foreign(f"{name}.{field}")
            _put(inner, field, one)
    return text_format.MessageToString(message)


def _foreign(field: str) -> NotSupportedError:
    return NotSupportedError(
        f"save_to_prototxt: strategy.{field} is Fleet's own, and the format of PaddlePaddle has no such field; "
        'write strategy.save("strategy.toml") instead'
    )


def _put(message: Any, name: str, value: Any) -> None:
    if isinstance(value, tuple):
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def _set_fields(strategy: DistributedStrategy) -> Iterator[tuple[str, Any]]:
    """Fields with a value that somebody has set, or that differs from the default; groups as dicts, if not empty."""
    found: dict[str, Any] = {}
    for leaf in strategy.leaves():
        owner = strategy if len(leaf.path) == 1 else getattr(strategy, leaf.path[0])
        if leaf.differs or owner.is_set(leaf.path[-1]):
            _note(found, leaf.path, leaf.value)
    for path, name, value in not_built(strategy):
        _note(found, (*path.split(".")[1:], name), value)
    yield from ((name, found[name]) for name in (*FORM, *(set(found) - set(FORM))) if name in found)


def _note(found: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    if len(path) == 1:
        found[path[0]] = value
    else:
        found.setdefault(path[0], {})[path[1]] = value


def load(strategy: DistributedStrategy, path: str | os.PathLike[str]) -> None:
    """Set every field of a file; what it does not have stays. Each error is one line that begins with the path."""
    place = os.fspath(path)
    message = message_class()()
    try:
        with open(place, encoding="utf-8") as file:
            text_format.Parse(file.read(), message)
    except OSError as error:
        raise StrategyError(f"{place} cannot be read: {error.strerror}; check the path") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise StrategyError(f"{place} is no strategy in protobuf's text format: {reason}") from None
    # Groups after switches: a_sync_configs.k_steps must outlive the 0 that a_sync puts there.
    for name, value in sorted(_fields(message).items(), key=lambda item: isinstance(item[1], dict)):
        try:
            setattr(strategy, name, value)
        except FleetError as error:
            raise type(error)(f"{place}: {error}") from None


def _fields(message: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            found[field.name] = dict(_fields(value))
        else:
            found[field.name] = list(value) if hasattr(value, "append") else value
    return found
