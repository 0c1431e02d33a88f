"""Slurm's short hand for lists of machines: `a[01-03,7],b-[1,3]-x,c`, and `4(x2),3` for tasks on each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_MOST = 100_000
"""A list longer than any cluster is a mistake, and would fill the memory."""
_NAME = re.compile(r"[^\[\],\s]*(?:\[[^\[\],]+(?:,[^\[\],]+)*\][^\[\],\s]*)*")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_TASKS = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


def expand_hosts(text: str) -> list[str]:
    """Every host in order; ValueError says where the text is malformed.

    >>> expand_hosts("a[01-03,7],b-[1,3]-x,c")
    ['a01', 'a02', 'a03', 'a7', 'b-1-x', 'b-3-x', 'c']
    """
    hosts: list[str] = []
    for name in _names(text.strip()):
        pieces = [[plain] if plain else list(_numbers(brackets)) for brackets, plain in _PIECE.findall(name)]
        hosts += itertools.islice(map("".join, itertools.product(*pieces)), _MOST + 1)
        if len(hosts) > _MOST:
            raise ValueError(f"{text!r} names more than {_MOST} hosts")
    return hosts


def _names(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    position = 0
    while True:
        match = _NAME.match(text, position)
        end = match.end() if match else position
        if end == position or (end < len(text) and text[end] != ","):
            raise ValueError(f"{text!r} is malformed at position {end}; write it like node[01-04],gpu7")
        yield text[position:end]
        if end == len(text):
            return
        position = end + 1


def _numbers(brackets: str) -> Iterator[str]:
    """`01-03,7` as 01, 02, 03, 7: a range keeps the width of its first number."""
    for part in brackets.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"[{brackets}] holds {part!r}; write numbers and ranges like [01-03,7]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= _MOST:
            raise ValueError(f"[{brackets}] holds the range {part!r}, which runs backwards or too far")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def expand_tasks(text: str) -> list[int]:
    """Tasks on each machine.

    >>> expand_tasks("4(x2),3")
    [4, 4, 3]
    """
    counts: list[int] = []
    for part in text.strip().split(","):
        match = _TASKS.fullmatch(part.strip())
        if match is None or int(match[2] or 1) > _MOST:
            raise ValueError(f"{text!r} holds {part!r}; write counts like 4(x2),3")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts
