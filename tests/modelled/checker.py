"""Goes through every state that a system can reach, the nearest first, and shows the way to one that must not be.

A state is a tuple. What was seen is kept as hashes of 64 bits, with the hash that each was reached from, so that a
million states need about 100 MB; two states of one hash would be taken for one, which among two million has a chance
of one in ten million.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)
Action = tuple[Any, ...]


class System(Protocol[State]):
    """What is checked."""

    def first(self) -> State:
        """Where everything begins."""

    def steps(self, state: State) -> Iterator[tuple[Action, State]]:
        """Everything that can happen, and what comes of it; a step may lead back to the same state."""

    def is_fault(self, action: Action) -> bool:
        """Whether this may happen, but nobody can count on it."""

    def alike(self, state: State) -> State:
        """The same for states that differ in names only."""

    def end(self, state: State) -> Hashable:
        """What has come of everything, in a state where nothing can happen any more but faults."""

    def wrong(self, state: State) -> str | None:
        """What must not be so in any state."""

    def wrong_end(self, state: State) -> str | None:
        """What must not be so where nothing can happen any more but faults."""


@dataclass
class Checked:
    """What was found."""

    num_states: int = 0
    num_steps: int = 0
    depth: int = 0
    problem: str | None = None
    trace: list[Action] = field(default_factory=list)
    """The way to the problem, one of the shortest."""
    ends: set[Hashable] = field(default_factory=set)
    """What may come of everything."""
    is_whole: bool = True
    """Whether every state was seen."""

    def __str__(self) -> str:
        if self.problem is None:
            return f"{self.num_states} states, {self.num_steps} steps, depth {self.depth}"
        steps = (f"{number:3}. {told(action)}" for number, action in enumerate(self.trace, 1))
        return "\n".join([f"{self.problem}, after", *steps])


def told(action: Action) -> str:
    """An action as a line of text: its name, with its arguments put in."""
    name, *values = action
    return str(name).format(*values)


def check(system: System[Any], most: int | None = None) -> Checked:
    """Look at every state, or at the first `most`; ends with the first problem."""
    found = Checked()
    first = system.alike(system.first())
    came_from: dict[int, int] = {hash(first): 0}
    frontier = [first]
    while frontier:
        following = []
        for state in frontier:
            if (why := system.wrong(state)) is not None:
                return _problem(system, found, came_from, state, why)
            is_end = True
            for action, reached in system.steps(state):
                found.num_steps += 1
                reached = system.alike(reached)
                if reached == state:
                    continue
                is_end = is_end and system.is_fault(action)
                key = hash(reached)
                if key not in came_from:
                    came_from[key] = hash(state)
                    following.append(reached)
            if is_end:
                found.ends.add(system.end(state))
                if (why := system.wrong_end(state)) is not None:
                    return _problem(system, found, came_from, state, why)
            if most is not None and len(came_from) > most:
                found.num_states, found.is_whole = len(came_from), False
                return found
        found.num_states = len(came_from)
        found.depth += 1
        frontier = following
    return found


def _problem(system: System[Any], found: Checked, came_from: dict[int, int], state: Any, why: str) -> Checked:
    """Find the way again, by the hashes on it."""
    way = [hash(state)]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    way.reverse()
    at = system.first()  # with the names that it has, so that the trace speaks of the same worker all the way
    for key in way[1:]:
        action, at = next(step for step in system.steps(at) if hash(system.alike(step[1])) == key)
        found.trace.append(action)
    found.num_states, found.problem = len(came_from), why
    return found
