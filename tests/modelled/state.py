"""What there is in the model: workers with their outboxes, servers and copies with their disks, terms, messages.

Everything is a tuple, so that a state can be hashed, and small numbers stand for names. A change is what one worker
does at one place of its script, on every server. Its id is the worker, the worker's incarnation, and a number.
"""

from __future__ import annotations

from typing import NamedTuple

PUSH, SHRINK, LEAVE = "P", "S", "L"


class Size(NamedTuple):
    """How large the model is, and what may go wrong in it."""

    scripts: tuple[str, ...] = ("PL", "PL")
    """What each worker does: pushes, shrinks, leaves."""
    is_sync: bool = False
    """Whether pushes wait for those of all workers, and make a step together."""
    standby: str = ""
    """`sync`: a change is acknowledged when the copy has it; `async`: at once. Empty: there are no copies."""
    copied: tuple[int, ...] = ()
    """The servers that have copies."""
    num_servers: int = 2
    deaths: int = 0
    """How often a worker may die; its next life begins at once."""
    restarts: int = 0
    """How often a process of a server or copy may die, and go on from its journal."""
    burns: int = 0
    """How often a machine of a server or copy may be lost, with its disk."""
    doubts: int = 0
    """How often a server that lives may be given up."""
    losses: int = 0
    """How often the machine of a worker may be lost, with its outbox; the worker goes on elsewhere."""
    broken: str = ""
    """What is done wrong, to see that the check finds it: one of `sizes.MUTATIONS`."""


class Worker(NamedTuple):
    """A worker's process, and its outbox, which outlives it."""

    life: int = 1
    stage: str = "again"
    """again: sends what its former life has left in the outbox; join: declares itself; run; send: a change is under
    way; done. In rounds (`rounds`) also settle, settle again, former, settle former."""
    incarnation: int = 0
    at: int = 0
    """The place in the script."""
    number: int = 0
    """Of its last change in this life."""
    heard: tuple[int, ...] = ()
    """The servers that have answered the present change."""
    outbox: tuple[int, ...] = ()
    """The incarnation, number and place of the last change that was written down, if there is one."""
    term: int = 0
    push: tuple[int, ...] = ()
    """In rounds: the incarnation, the number and the step of the push whose step it brings to its end."""
    said: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """In rounds: what servers have said of it: the server, a number, and more."""


class Entry(NamedTuple):
    """What a server has of one worker, on its disk: a ledger, and what has become of the script."""

    incarnation: int = 0
    life: int = 0
    former: tuple[int, ...] = ()
    """Lives that are over, where a first word begins a life (`sizes.MUTATIONS`)."""
    taken: tuple[int, ...] = ()
    """Numbers of changes of the present incarnation."""
    made: tuple[int, ...] = ()
    """For each place of the script, how often its change was made here; a leave counts within an incarnation."""
    is_present: bool = True
    """Whether steps wait for the worker."""


Made = tuple[int, int, int, int]
"""A change: worker, incarnation, number and place."""


class Record(NamedTuple):
    """What a journal has of one change; of a step, its pushes."""

    kind: str
    """That of the change, `declare` or `step`."""
    changes: tuple[Made, ...]
    """For the declaration of a worker: the worker, its incarnation, its life, and whether it has left."""


class Node(NamedTuple):
    """A machine that has a server or a copy, with its disk."""

    is_there: bool = True
    term: int = 0
    """The newest that it knows."""
    entries: tuple[Entry, ...] = ()
    version: int = 0
    """How many synchronous steps were made."""
    collected: tuple[Made, ...] = ()
    """Pushes that were taken, and are in no step yet; in memory, or in rounds in the journal too."""
    is_told: bool = False
    """In rounds, in memory: whether a worker has said that all servers have all pushes of the present step."""
    has_copy: bool = False
    """Whether a copy has begun with its rows, so that records are kept for it."""
    stream: tuple[Record, ...] = ()
    """Records that the server does not know to be on its copy."""
    pulled: int = 0
    """How many of these the copy has."""
    promised: int = 0
    """1 + the term in which it has told its copy that it waits for it from now on; 0: it has not."""


class Line(NamedTuple):
    """One server of the job: two machines that take turns as its server and its copy."""

    nodes: tuple[Node, Node]
    copy: int = 2
    """The machine on which a copy runs, or fills; 2: none."""
    is_filled: bool = False
    """Whether the copy has begun with the rows of its server."""
    note: int = 0
    """1 + the term in which the copy was told that it is whole, as it tells the launchers; 0: it has not been."""
    is_promoted: bool = False
    """Whether a copy has ever taken the server's place: with `--standby async` it may lack what was acknowledged."""
    trouble: str = ""
    """What a worker is told that cannot be mended."""


class Term(NamedTuple):
    """Which machine of each line is the server, and which the copy that may take its place; 2: none."""

    servers: tuple[int, ...]
    copies: tuple[int, ...]


class Change(NamedTuple):
    """The message of a change to one server."""

    worker: int
    incarnation: int
    number: int
    place: int
    line: int
    term: int


class Declare(NamedTuple):
    """The message of a worker that joins one server; server 0 gives the incarnation."""

    worker: int
    life: int
    incarnation: int
    line: int
    term: int
    has_left: bool
    """Whether a former life has taken leave, or was about to: no step waits for this one."""
    kind: str = "declare"
    """So that none is equal to a `Change`, which is a tuple of numbers as well."""


class Tell(NamedTuple):
    """The message of a worker to one server, that all servers have the pushes of a step."""

    worker: int
    incarnation: int
    number: int
    line: int
    term: int
    step: int
    kind: str = "tell"


class State(NamedTuple):
    """All of it."""

    workers: tuple[Worker, ...]
    lines: tuple[Line, ...]
    terms: tuple[Term, ...]
    """All that were decided; the number of a term is its place."""
    sent: frozenset[Change | Declare | Tell]
    """Every message that was ever sent: it may arrive late, again, or never."""
    acknowledged: frozenset[tuple[int, int, int]]
    """Line, worker and place of each change of which a worker has heard that it is made."""
    budget: tuple[int, ...]
    """How many deaths, restarts, burns, doubts and losses are left."""
    is_lost: bool = False
    """The job has ended: a server was lost that had no copy."""


def in_rounds(size: Size) -> bool:
    """Whether servers keep the pushes of a synchronous step until all have all of them."""
    return size.is_sync and size.standby == "sync" and size.num_servers > 1


def nothing(size: Size) -> tuple[Entry, ...]:
    """What a server has of workers of whom it has heard nothing."""
    return tuple(Entry(made=(0,) * len(script)) for script in size.scripts)


def first(size: Size) -> State:
    """The beginning: nobody has joined."""
    lines = (Line((Node(entries=nothing(size)), Node(is_there=False, entries=nothing(size)))),) * size.num_servers
    terms = (Term((0,) * size.num_servers, (2,) * size.num_servers),)
    budget = (size.deaths, size.restarts, size.burns, size.doubts, size.losses)
    return State(tuple(Worker() for _ in size.scripts), lines, terms, frozenset(), frozenset(), budget)


def with_worker(state: State, number: int, worker: Worker) -> State:
    """The state with one worker changed."""
    return state._replace(workers=(*state.workers[:number], worker, *state.workers[number + 1 :]))


def with_line(state: State, number: int, line: Line) -> State:
    """The state with one server changed."""
    return state._replace(lines=(*state.lines[:number], line, *state.lines[number + 1 :]))


def with_node(line: Line, number: int, node: Node) -> Line:
    """The server with one of its machines changed."""
    return line._replace(nodes=(node, line.nodes[1]) if number == 0 else (line.nodes[0], node))


def spent(state: State, fault: int) -> State:
    """The state with one fault of a kind fewer to come."""
    left = tuple(count - (kind == fault) for kind, count in enumerate(state.budget))
    return state._replace(budget=left)
