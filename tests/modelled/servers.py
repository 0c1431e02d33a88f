"""What a server does with a message, and what it answers; what is on its disk outlives its process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelled.checker import Action
from modelled.state import (
    LEAVE,
    PUSH,
    Change,
    Declare,
    Entry,
    Line,
    Node,
    Record,
    Size,
    State,
    Tell,
    in_rounds,
    spent,
    with_line,
    with_node,
)

Step = tuple[Action, State]
RESTART = 1
"""Its place in the budget."""
RESTARTS = "the process of server {0} on machine {1} dies, and goes on from its journal"
TAKES_LIFE = "server {0} takes the declaration of worker {1}, life {2}"
TAKES_CHANGE = "server {0} takes change {1} of worker {2}, incarnation {3}"
IS_TOLD = "server {0} is told by worker {1} that all servers have the pushes of step {2}"
DECLARE, STEP, COLLECT = "declare", "step", "collect"
"""Kinds of records beside those of changes."""


def steps(size: Size, state: State) -> Iterator[Step]:
    """Everything that servers can do with the messages that were ever sent, and the deaths of their processes."""
    for message in state.sent:
        where = state.terms[message.term].servers[message.line]
        line = state.lines[message.line]
        node = line.nodes[where]
        if not node.is_there or node.term != message.term:
            continue  # it is gone, or one of the two does not know the other's term: it is asked again
        after = received(size, line, where, message)
        if after is not line:
            yield _told(message), with_line(state, message.line, after)
    if size.broken == "answer before recording":
        yield from _record_late(state)
    if state.budget[RESTART]:
        yield from _restart(size, state)


def received(size: Size, line: Line, where: int, message: Change | Declare | Tell) -> Line:
    """The server after a message; the same where that changes nothing."""
    if isinstance(message, Tell):
        return _was_told(size, line, where, message)
    return _declared(line, where, message) if isinstance(message, Declare) else _taken(size, line, where, message)


def _told(message: Change | Declare | Tell) -> Action:
    if isinstance(message, Tell):
        return IS_TOLD, message.line, message.worker, message.step
    if isinstance(message, Declare):
        return TAKES_LIFE, message.line, message.worker, message.life
    return TAKES_CHANGE, message.line, message.number, message.worker, message.incarnation


def _restart(size: Size, state: State) -> Iterator[Step]:
    for number, line in enumerate(state.lines):
        for where, node in enumerate(line.nodes):
            is_noted = where == line.copy and line.note
            is_forgotten = size.broken == "a promise is forgotten" and node.promised
            lost = node.is_told if in_rounds(size) else node.collected
            if node.is_there and (lost or is_noted or is_forgotten):  # otherwise it has lost nothing
                promised, kept = node.promised if not is_forgotten else 0, node.collected if in_rounds(size) else ()
                after = with_node(line, where, node._replace(collected=kept, is_told=False, promised=promised))
                after = after._replace(note=0) if is_noted else after
                yield (RESTARTS, number, where), spent(with_line(state, number, after), RESTART)


def _record_late(state: State) -> Iterator[Step]:
    for number, line in enumerate(state.lines):
        for where, node in enumerate(line.nodes):
            for one in node.collected:
                left = node._replace(collected=tuple(other for other in node.collected if other != one))
                after = record(with_node(line, where, left), where, Record(PUSH, (one,)))
                yield ("server {0} records what it has acknowledged", number), with_line(state, number, after)


def serving(state: State, line: int, term: int) -> Node | None:
    """The server of a term, if it answers somebody who knows this term."""
    node = state.lines[line].nodes[state.terms[term].servers[line]]
    return node if node.is_there and node.term == term else None


def answer_to(size: Size, state: State, message: Change) -> str | None:
    """What a server answers to a change that it has got: made; over, for a life that is over; None: nothing yet."""
    node = serving(state, message.line, message.term)
    if node is None:
        return None
    entry = node.entries[message.worker]
    if message.incarnation < entry.incarnation:
        return "over"
    if message.incarnation > entry.incarnation:
        return None
    if message.number not in entry.taken:
        is_early = size.broken == "answer before recording" and any(one[:3] == message[:3] for one in node.collected)
        return "made" if is_early else None
    return "made" if is_on_copy(size, state, message.line, node, message[:3]) else None


def has_pushes(size: Size, node: Node) -> bool:
    """Whether a server has taken any push."""
    return any(
        count and kind == PUSH
        for script, entry in zip(size.scripts, node.entries, strict=True)
        for kind, count in zip(script, entry.made, strict=True)
    )


def is_on_copy(size: Size, state: State, line: int, node: Node, change: tuple[int, ...]) -> bool:
    """Whether the copy of a server has a change, where it must have it before it is acknowledged."""
    if size.standby != "sync" or size.broken == "answer before the copy has it":
        return True
    if not waits_for_copy(state, line, node):
        return True
    return not any(one[: len(change)] == change for record in node.stream for one in record.changes)


def waits_for_copy(state: State, line: int, node: Node) -> bool:
    """Whether a server acknowledges only what its copy has, with `--standby sync`."""
    return state.terms[node.term].copies[line] != 2 or node.promised == node.term + 1


def _declared(line: Line, where: int, message: Declare) -> Line:
    node = line.nodes[where]
    entry, incarnation = node.entries[message.worker], message.incarnation
    if not incarnation:  # where a first word begins a life
        if message.life == entry.life or message.life in entry.former:
            return line
        remembered = node._replace(entries=_with(node.entries, message.worker, former=(*entry.former, entry.life)))
        line, incarnation = with_node(line, where, remembered), entry.incarnation + 1
    if incarnation <= entry.incarnation:
        return line
    declared = message.worker, incarnation, message.life, int(message.has_left)
    return record(line, where, Record(DECLARE, (declared,)))


def _with(entries: tuple[Entry, ...], worker: int, **changes: Any) -> tuple[Entry, ...]:
    return (*entries[:worker], entries[worker]._replace(**changes), *entries[worker + 1 :])


def _taken(size: Size, line: Line, where: int, message: Change) -> Line:
    node = line.nodes[where]
    entry = node.entries[message.worker]
    if message.incarnation != entry.incarnation or (message.number in entry.taken and size.broken != "no ledger"):
        return line
    change, script = message[:4], size.scripts[message.worker]
    kind = script[message.place]
    if kind == PUSH and (size.is_sync or size.broken == "answer before recording"):
        if change in node.collected:
            return line
        if size.is_sync and node.version != script[: message.place].count(PUSH):
            return line._replace(trouble=f"worker {message.worker} pushes a step that the others are not at")
        if in_rounds(size):
            return _completed(size, record(line, where, Record(COLLECT, (change,))), where)
        collected = tuple(sorted((*node.collected, change)))
        return _completed(size, with_node(line, where, node._replace(collected=collected)), where)
    after = record(line, where, Record(kind, (change,)))
    return _completed(size, after, where) if kind == LEAVE else after


def _was_told(size: Size, line: Line, where: int, message: Tell) -> Line:
    node = line.nodes[where]
    is_late = message.incarnation != node.entries[message.worker].incarnation or node.version != message.step
    if is_late or node.is_told:
        return line
    return _completed(size, with_node(line, where, node._replace(is_told=True)), where)


def _completed(size: Size, line: Line, where: int) -> Line:
    """Make the present step, if all of its pushes are there."""
    node = line.nodes[where]
    pushed = {one[0] for one in node.collected}
    is_awaited = in_rounds(size) and not node.is_told and size.broken != "steps in one round"
    if not size.is_sync or not pushed or is_awaited:
        return line
    if any(entry.is_present and worker not in pushed for worker, entry in enumerate(node.entries)):
        return line
    return record(line, where, Record(STEP, node.collected))


def record(line: Line, where: int, entry: Record) -> Line:
    """Put a change into the journal of a server, and make it; its copy gets it later."""
    node = made(line.nodes[where], entry)
    if node.has_copy:
        node = node._replace(stream=(*node.stream, entry))
    return with_node(line, where, node)


def made(node: Node, entry: Record) -> Node:
    """What a record makes of a server, live and on its copy."""
    entries, collected, version, is_told = node.entries, node.collected, node.version, node.is_told
    if entry.kind == DECLARE:
        worker, incarnation, life, has_left = entry.changes[0]
        counts = (*entries[worker].made[:-1], 0)  # a leave counts within an incarnation
        lives: dict[str, Any] = {"incarnation": incarnation, "life": life, "taken": (), "made": counts}
        entries = _with(entries, worker, is_present=not has_left, **lives)
        is_told = is_told and all(one[0] != worker for one in collected)
        collected = tuple(one for one in collected if one[0] != worker)
    for worker, _, number, place in entry.changes if entry.kind != DECLARE else ():
        old = entries[worker]
        counts = tuple(count + (at == place and entry.kind != COLLECT) for at, count in enumerate(old.made))
        is_present = old.is_present and entry.kind != LEAVE
        taken = tuple(sorted({*old.taken, number}))
        entries = _with(entries, worker, taken=taken, made=counts, is_present=is_present)
    if entry.kind == COLLECT:
        collected = tuple(sorted((*collected, *entry.changes)))
    if entry.kind == STEP:
        collected, version, is_told = (), version + 1, False
    return node._replace(entries=entries, collected=collected, version=version, is_told=is_told)
