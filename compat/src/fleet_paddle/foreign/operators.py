"""A pickle looked through before it is read: what would take memory or time without end is refused.

The lengths that it tells are compared with what there is. The number under which it remembers a value is one of a list
that the reader makes as long as that. And the keys of its dicts are texts and numbers: the hash of a tuple of twice the
same tuple, and so on a hundred times, is never found. So it is followed which kind of value stands where.
"""

from __future__ import annotations

import pickletools
from typing import Any

_MARK = pickletools.markobject
_PUTS, _GETS = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")
_SETS = ("EMPTY_SET", "ADDITEMS", "FROZENSET")
_KEYS = frozenset(["int", "int_or_bool", "bool", "float", "None", "str", "bytes", "bytes_or_str"])
"""What pickletools calls the kinds of a key; others are refused when the dict is there, but some have no hash."""


class Refused(Exception):  # noqa: N818 - becomes a CheckpointError, which knows the file
    """Something in a pickle that is no data."""


def shown(value: object) -> str:
    """A value in an error: the beginning of a text or a number, else its kind, for a list may be endless to write."""
    return repr(value)[:40] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def check(data: bytes) -> None:
    """Refused, or an error of another kind, for a pickle that is not to be read."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for op, given, _ in pickletools.genops(data):
        name = op.name
        if name in _SETS:
            raise Refused("a set")
        if name in _PUTS:
            if not 0 <= _number(given) <= len(data):
                raise Refused(f"a value with the number {shown(given)}")
            memo[_number(given)] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _GETS:
            stack.append(memo[_number(given)])
        else:
            _follow(op, stack)


def _number(given: Any) -> int:
    return int(given)


def _follow(op: Any, stack: list[Any]) -> None:
    """What an operator does to the kinds of values."""
    before = op.stack_before
    taken: list[Any] = []
    if _MARK in before:
        while (last := stack.pop()) is not _MARK:
            taken.append(last)
        taken.reverse()
        before = before[: before.index(_MARK)]
    if op.name in ("SETITEMS", "DICT"):
        _require_keys(taken[::2])
    elif op.name == "SETITEM":
        _require_keys(stack[-2:-1])
    if len(before) > len(stack):
        raise ValueError("an operator without its values")
    del stack[len(stack) - len(before) :]
    stack.extend(op.stack_after)


def _require_keys(kinds: list[Any]) -> None:
    for kind in kinds:
        if kind.name not in _KEYS:
            raise Refused(f"a key that is a {kind.name}")
