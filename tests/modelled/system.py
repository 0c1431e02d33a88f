"""What must hold, whatever happens in whatever order: the system that `checker` goes through."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from modelled import copies, servers, state, workers
from modelled.checker import Action
from modelled.servers import waits_for_copy
from modelled.state import LEAVE, Change, Declare, Line, Made, Node, Record, Size, State, Tell, Worker, in_rounds

FAULTS = {workers.DIES, workers.IS_LOST, servers.RESTARTS, copies.BURNS, copies.DOUBTED}


class Job:
    """A job of some size, for `checker.check`."""

    def __init__(self, size: Size, *, keeps_all: bool = False, is_reduced: bool = False) -> None:
        """`keeps_all`: also messages that can change nothing any more.

        `is_reduced`: what only makes more possible happens at once, which leaves far fewer orders, and hides no wrong
        one of a job that is done as it should be (of the mutations it hides one, of copies that are not listed).
        """
        self.size = size
        self._keeps_all = keeps_all or size.broken == "no ledger"
        self._is_reduced = is_reduced
        self._is_symmetric = len(size.scripts) == 2 and size.scripts[0] == size.scripts[1] and not in_rounds(size)

    def first(self) -> State:
        return state.first(self.size)

    def steps(self, now: State) -> Iterator[tuple[Action, State]]:
        if now.is_lost:
            return
        for part in (workers, servers, copies):
            for action, reached in part.steps(self.size, now):
                settled = self._settled(reached) if self._is_reduced else reached
                yield action, settled if self._keeps_all else _tidy(settled)

    def _settled(self, now: State) -> State:
        """The state behind all that may as well happen at once: what is possible without it, is possible with it."""
        while (step := workers.at_once(self.size, now) or copies.at_once(self.size, now)) is not None:
            now = step[1]
        return now

    def is_fault(self, action: Action) -> bool:
        return action[0] in FAULTS

    def alike(self, now: State) -> State:
        """Two workers with one script may change their names, and terms that nobody goes by are forgotten."""
        if self._is_reduced and self.size.standby:
            now = _renumbered(_without_words(self.size, now))
        if not self._is_symmetric or now.workers[0] <= now.workers[1]:
            return now
        return _swapped(now)

    def end(self, now: State) -> Hashable:
        """What its servers have: how often each change was made, whose lives, at which step."""
        rows = [line.nodes[now.terms[-1].servers[number]] for number, line in enumerate(now.lines)]
        return now.is_lost or tuple(
            (node.is_there, node.version, *((one.incarnation, one.made, one.is_present) for one in node.entries))
            for node in rows
        )

    def wrong(self, now: State) -> str | None:
        for number, line in enumerate(now.lines):
            if line.trouble:
                return f"refused for good: {line.trouble}"
            for where, node in enumerate(line.nodes):
                for worker, entry in enumerate(node.entries):
                    if any(count > 1 for count in entry.made):
                        return f"a change of worker {worker} was made twice on machine {where} of server {number}"
            if self.size.standby == "sync" and sum(_may_acknowledge(now, number, node) for node in line.nodes) > 1:
                return f"two processes may acknowledge changes of server {number}"
        return self._lost(now)

    def _lost(self, now: State) -> str | None:
        """What was acknowledged and is not there any more; with an asynchronous copy that may be what it lacked."""
        for number, worker, place in now.acknowledged:
            if self.size.scripts[worker][place] == LEAVE or self._may_lack(now, number):
                continue
            node = now.lines[number].nodes[now.terms[-1].servers[number]]
            is_missing = node.is_there and not node.entries[worker].made[place]
            if is_missing and not any(one[0] == worker and one[3] == place for one in node.collected):
                return f"server {number} has lost a change of worker {worker} that it had acknowledged"
        return None

    def _may_lack(self, now: State, number: int) -> bool:
        return self.size.standby == "async" and now.lines[number].is_promoted

    def wrong_end(self, now: State) -> str | None:
        if now.is_lost:
            return None
        for number, worker in enumerate(now.workers):
            if worker.stage != "done":
                return f"worker {number} is stuck"
            for line in range(self.size.num_servers):
                node = now.lines[line].nodes[now.terms[-1].servers[line]]
                if self._may_lack(now, line):
                    continue
                if not all(node.entries[number].made):
                    return f"a change of worker {number} is not on server {line}, at the end"
        return None


def _without_words(size: Size, now: State) -> State:
    """The state without acknowledgements of what cannot be lost any more: every process that has rows has it."""

    def is_safe(number: int, worker: int, place: int) -> bool:
        line = now.lines[number]
        if size.standby == "async" and line.is_promoted:
            return True
        where = now.terms[-1].servers[number]
        rows = [line.nodes[where]] + ([line.nodes[line.copy]] if line.is_filled and line.copy != copies.NONE else [])
        return all(node.is_there and node.entries[worker].made[place] for node in rows)

    gone = {word for word in now.acknowledged if is_safe(*word)}
    return now._replace(acknowledged=now.acknowledged - gone) if gone else now


def _renumbered(now: State) -> State:
    """The state without terms that nobody knows of any more, which only their order tells from others."""
    known = {node.term for line in now.lines for node in line.nodes if node.is_there}
    known |= {node.promised - 1 for line in now.lines for node in line.nodes if node.promised}
    known |= {line.note - 1 for line in now.lines if line.note} | {message.term for message in now.sent}
    known |= {worker.term for worker in now.workers if worker.stage != "done"} | {len(now.terms) - 1}
    if len(known) == len(now.terms):
        return now
    place = {old: new for new, old in enumerate(sorted(known))}

    def of(node: Node) -> Node:
        promised = place[node.promised - 1] + 1 if node.promised else 0
        return node._replace(term=place[node.term], promised=promised) if node.is_there else node

    lines = tuple(
        line._replace(nodes=(of(line.nodes[0]), of(line.nodes[1])), note=place[line.note - 1] + 1 if line.note else 0)
        for line in now.lines
    )
    workers = tuple(one if one.stage == "done" else one._replace(term=place[one.term]) for one in now.workers)
    sent: frozenset[Change | Declare | Tell] = frozenset(one._replace(term=place[one.term]) for one in now.sent)
    terms = tuple(now.terms[old] for old in sorted(known))
    return now._replace(lines=lines, workers=workers, sent=sent, terms=terms)


def _tidy(now: State) -> State:
    """The state without messages that can change nothing any more."""
    gone = [message for message in now.sent if _is_known(now, message)]
    return now._replace(sent=now.sent.difference(gone)) if gone else now


def _is_known(now: State, message: Change | Declare | Tell) -> bool:
    """Whether a message comes too late for the process that could take it."""
    node = now.lines[message.line].nodes[now.terms[message.term].servers[message.line]]
    if not node.is_there:
        return now.workers[message.worker].term > message.term
    if node.term > message.term and now.workers[message.worker].term > message.term:
        return True
    entry = node.entries[message.worker]
    if isinstance(message, Tell):
        return message.incarnation < entry.incarnation or message.step < node.version
    if isinstance(message, Declare):
        return 0 < message.incarnation <= entry.incarnation
    return message.incarnation < entry.incarnation or (
        message.incarnation == entry.incarnation and message.number in entry.taken
    )


def _may_acknowledge(now: State, number: int, node: Node) -> bool:
    """Whether a process takes itself for the server, and could acknowledge one more change as things are."""
    line, term = now.lines[number], now.terms[node.term]
    if not node.is_there or line.nodes[term.servers[number]] is not node:
        return False
    if not waits_for_copy(now, number, node):
        return True
    return line.copy != copies.NONE and line.nodes[line.copy].is_there and line.nodes[line.copy].term == node.term


def _swapped(now: State) -> State:
    """The same with the names of both workers changed."""
    sent: set[Change | Declare | Tell] = {message._replace(worker=1 - message.worker) for message in now.sent}
    acknowledged = frozenset((line, 1 - worker, place) for line, worker, place in now.acknowledged)
    lines = tuple(_swapped_line(line) for line in now.lines)
    both: tuple[Worker, ...] = now.workers[::-1]
    return now._replace(workers=both, lines=lines, sent=frozenset(sent), acknowledged=acknowledged)


def _swapped_line(line: Line) -> Line:
    first, second = (
        node._replace(
            entries=node.entries[::-1],
            collected=_swapped_changes(node.collected),
            stream=tuple(Record(one.kind, _swapped_changes(one.changes)) for one in node.stream),
        )
        for node in line.nodes
    )
    return line._replace(nodes=(first, second))


def _swapped_changes(changes: tuple[Made, ...]) -> tuple[Made, ...]:
    return tuple(sorted((1 - worker, *rest) for worker, *rest in changes))  # type: ignore[misc]
