"""Synchronous steps of several servers with copies: each server keeps its pushes until a worker tells it of all.

A worker sends its push to all servers, asks each whether it has the pushes of all workers, and then tells each that
all servers have. Whoever takes a worker's place first brings the step to its end whose push it finds on all servers.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelled.checker import Action
from modelled.servers import is_on_copy, serving
from modelled.state import PUSH, Size, State, Tell, Worker, in_rounds, with_worker

Step = tuple[Action, State]
FINDS = "worker {0} hears from server {1} which push of a former life it has"
GIVES_UP = "worker {0} finds a step that no server has made, and makes it again"
HAS_ALL = "worker {0} hears from server {1} that it has the pushes of all workers, or has made step {2}"
ASKS_AGAIN = "worker {0} has heard of other lives from other servers, and asks again"
TELLS = "worker {0} tells all servers that all have the pushes of step {1}"
IS_DONE = "worker {0} hears from server {1} that it has made step {2}"
STARTS_OVER = "worker {0} hears from server {1} that the life is over whose push it has found, and looks again"
LACKS, MADE = -1, -2
"""What a server says of a push in place of a number: that it has none, that it has made the step."""
IS_OVER = ((0, 0, ()),)
"""What a worker has heard that has sent a push of a former life: a server knows of a later one."""
HAS_LEFT = ((0, 1, ()),)
"""What a worker has heard whose former life has left, on all servers."""


def begin(size: Size, worker: Worker, intent: tuple[int, ...], number: int) -> Worker | None:
    """The worker behind a push that all servers have, whose step it brings to its end; None where that is made."""
    incarnation, change, place = intent
    script = size.scripts[number]
    if not in_rounds(size) or script[place] != PUSH or size.broken == "steps in one round":
        return None
    push = incarnation, change, script[:place].count(PUSH)
    return worker._replace(stage="settle again" if worker.stage == "again" else "settle", push=push, heard=(), said=())


def at_end(worker: Worker) -> Worker:
    """The worker behind a step that is made on all servers: its own, or one of a former life."""
    ended = worker._replace(push=(), said=())
    if worker.stage == "settle":
        return ended._replace(stage="run", at=worker.at + 1)
    return ended._replace(stage="former" if worker.stage == "settle again" else "join")


def steps(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """What a worker does beside sending its push."""
    if worker.stage == "former":
        yield from _former(size, state, number, worker)
    elif len(worker.said) < size.num_servers or not _is_told(worker):
        yield from _settle(size, state, number, worker)
    else:
        yield from _tell(size, state, number, worker)


def _is_told(worker: Worker) -> bool:
    """Whether all servers have said that they have all pushes, of the same lives."""
    return len({lives for _, _, lives in worker.said if lives}) <= 1


def _former(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Ask each server which push of a former life it has; bring that step to its end, or leave it."""
    if len(worker.said) == size.num_servers:
        kept = next((one for one in worker.said if one[1] != LACKS), None)
        is_left = kept is None or any(one[1] == LACKS and one[2][0] == kept[2][0] for one in worker.said)
        if is_left or size.broken == "former pushes are left":
            has_left = all(one[1] == LACKS and not one[2][1] for one in worker.said)
            is_known = has_left and size.broken != "who has left is not known"
            joining = worker._replace(stage="join", said=HAS_LEFT if is_known else ())
            yield (GIVES_UP, number), with_worker(state, number, joining)
            return
        assert kept is not None
        version, incarnation = kept[2]
        settling = worker._replace(stage="settle former", said=(), push=(incarnation, kept[1], version))
        yield (FINDS, number, kept[0]), with_worker(state, number, settling)
        return
    for line in range(size.num_servers):
        node = serving(state, line, worker.term)
        if node is None or any(one[0] == line for one in worker.said):
            continue
        found = next((one for one in node.collected if one[0] == number), None)
        is_present = int(node.entries[number].is_present)
        said = (
            (line, LACKS, (node.version, is_present)) if found is None else (line, found[2], (node.version, found[1]))
        )
        heard = worker._replace(said=tuple(sorted((*worker.said, said))))
        yield (FINDS, number, line), with_worker(state, number, heard)


def _settle(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Hear from each server that it has the pushes of all; of other lives than another server: ask again."""
    incarnation, change, step = worker.push
    if len(worker.said) == size.num_servers:
        yield (ASKS_AGAIN, number), with_worker(state, number, worker._replace(said=()))
        return
    for line in range(size.num_servers):
        node = serving(state, line, worker.term)
        if node is None or any(one[0] == line for one in worker.said):
            continue
        entry = node.entries[number]
        if entry.incarnation > incarnation:  # of a life that died while it declared itself
            over = with_worker(state, number, worker._replace(stage="former", said=(), push=()))
            yield (STARTS_OVER, number, line), over
            continue
        if entry.incarnation != incarnation or (node.version == step and change not in entry.taken):
            continue  # lost, which cannot be, with copies that have what was acknowledged
        if node.version > step:
            if not is_on_copy(size, state, line, node, (number, incarnation, change)):
                continue
            said: tuple[int, int, tuple[int, ...]] = line, MADE, ()
        elif not _has_all(node.entries, node.collected):
            continue
        else:
            said = line, change, tuple(one for made in node.collected for one in made[:2])
        after = worker._replace(said=tuple(sorted((*worker.said, said))))
        if len(after.said) == size.num_servers and all(one[1] == MADE for one in after.said):
            after = at_end(after)
        yield (HAS_ALL, number, line, step), _acknowledged(size, with_worker(state, number, after), worker, number)


def _has_all(entries: tuple, collected: tuple) -> bool:  # type: ignore[type-arg]
    pushed = {one[0] for one in collected}
    return all(worker in pushed for worker, entry in enumerate(entries) if entry.is_present)


def _tell(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Tell each server, and hear that it has made the step."""
    incarnation, change, step = worker.push
    messages = [Tell(number, incarnation, change, line, worker.term, step) for line in range(size.num_servers)]
    are_over = [_is_made(size, state, message) for message in messages]
    if not state.sent.issuperset(one for one, is_over in zip(messages, are_over, strict=True) if not is_over):
        yield (TELLS, number, step), state._replace(sent=state.sent.union(messages))
    for line in range(size.num_servers):
        node = serving(state, line, worker.term)
        if node is not None and node.entries[number].incarnation > incarnation:
            over = with_worker(state, number, worker._replace(stage="former", said=(), heard=(), push=()))
            yield (STARTS_OVER, number, line), over
            return
    for line, is_over in enumerate(are_over):
        if is_over and line not in worker.heard:
            heard = worker._replace(heard=tuple(sorted((*worker.heard, line))))
            if len(heard.heard) == size.num_servers:
                heard = at_end(heard._replace(heard=()))
            told = with_worker(state, number, heard)
            yield (IS_DONE, number, line, step), _acknowledged(size, told, worker, number)


def _is_made(size: Size, state: State, message: Tell) -> bool:
    node = serving(state, message.line, message.term)
    if node is None or node.version <= message.step:
        return False
    return is_on_copy(size, state, message.line, node, message[:3])


def _acknowledged(size: Size, after: State, worker: Worker, number: int) -> State:
    """The state with the push noted as made on all servers, once a life that made it goes on."""
    if after.workers[number].stage != "run" or worker.stage != "settle":
        return after
    words = {(line, number, worker.at) for line in range(size.num_servers)}
    return after._replace(acknowledged=after.acknowledged | words)
