"""What a worker does: it finishes what its former life began, joins, and makes the changes of its script one by one."""

from __future__ import annotations

from collections.abc import Iterator

from modelled import rounds
from modelled.checker import Action
from modelled.servers import answer_to, has_pushes, is_on_copy, serving
from modelled.state import LEAVE, PUSH, Change, Declare, Size, State, Worker, in_rounds, spent, with_worker

Step = tuple[Action, State]
NO_MORE = 1000
"""The term of a worker that has ended, and sends nothing any more."""
DEATH, LOSS = 0, 4
"""Their places in the budget."""
LEARNS = "worker {0} learns of term {1}"
FINDS_NOTHING = "worker {0} finds its outbox empty"
ASKS = "worker {0} asks server 0, and may be incarnation {1}"
DECLARES = "worker {0} declares life {1} on server {2}"
IS_REFUSED = "worker {0} is told that {1} is taken"
JOINS = "worker {0} has joined as incarnation {1}, at place {2} of its script"
WRITES = "worker {0} writes down change {1}: {2} at place {3}"
BEGINS = "worker {0} begins change {1}, without writing it down: {2} at place {3}"
SENDS = "worker {0} sends change {1} of incarnation {2} to all servers"
WRITES_LATE = "worker {0} writes down change {1}, which it has sent"
HEARS = "worker {0} hears from server {3} that change {1} of incarnation {2} is {4}"
ENDS = "worker {0} ends"
DIES = "worker {0} dies, and begins life {1}"
IS_LOST = "the machine of worker {0} is lost, and it begins life {1} on another, in term {2}"


JOINS_AGAIN = "worker {0} declares incarnation {1} on server {2}, which follows another and has lost it"
AT_ONCE = {FINDS_NOTHING, DECLARES, SENDS, JOINS_AGAIN, rounds.TELLS}
"""What may as well happen at once: a message may be late or lost, so one that is sent leaves all open that was."""


def at_once(size: Size, state: State) -> Step | None:
    """Something of that kind that a worker can do now."""
    for number, worker in enumerate(state.workers):
        for step in _onward(size, state, number, worker):
            if step[0][0] in AT_ONCE:
                return step
        is_behind = worker.stage != "done" and worker.term + 1 < len(state.terms)
        if is_behind and not any(serving(state, line, worker.term) for line in range(size.num_servers)):
            return _learning(state, number, worker)  # nobody goes by its term, or ever will again
    return None


def steps(size: Size, state: State) -> Iterator[Step]:
    """Everything that workers can do."""
    for number, worker in enumerate(state.workers):
        if worker.stage == "done":
            continue
        if worker.term + 1 < len(state.terms):
            yield _learning(state, number, worker)
        yield from _onward(size, state, number, worker)
        if worker.stage == "run":
            yield from _begin(size, state, number, worker)
        if state.budget[DEATH]:
            reborn = Worker(life=worker.life + 1, outbox=worker.outbox, term=worker.term)
            yield (DIES, number, reborn.life), spent(with_worker(state, number, reborn), DEATH)
        if state.budget[LOSS]:
            elsewhere = Worker(life=worker.life + 1, term=len(state.terms))
            after = state._replace(terms=(*state.terms, state.terms[-1]))
            yield (IS_LOST, number, elsewhere.life, elsewhere.term), spent(with_worker(after, number, elsewhere), LOSS)


def _learning(state: State, number: int, worker: Worker) -> Step:
    learned = worker._replace(term=len(state.terms) - 1)
    return (LEARNS, number, learned.term), with_worker(state, number, learned)


def _onward(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """What a worker does that has to do with messages."""
    if worker.stage == "again":
        yield from _again(size, state, number, worker)
    elif worker.stage == "join":
        yield from _join(size, state, number, worker)
    elif worker.stage == "send":
        yield from _join_again(size, state, number, worker)
        yield from _send(size, state, number, worker, (worker.incarnation, worker.number, worker.at))
    elif worker.stage not in ("run", "done"):
        yield from rounds.steps(size, state, number, worker)


def _again(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Send what the former life wrote down, until every server has it or says that it is too late for it."""
    if worker.outbox:
        yield from _send(size, state, number, worker, worker.outbox)
        return
    joining = worker._replace(stage="former" if in_rounds(size) else "join")
    yield (FINDS_NOTHING, number), with_worker(state, number, joining)


def _join(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Ask server 0 for an incarnation, and declare it there, then on the others."""
    first = serving(state, 0, worker.term)
    if not worker.incarnation and size.broken != "a first word begins a life":
        if first is not None:
            asked = worker._replace(incarnation=first.entries[number].incarnation + 1)
            yield (ASKS, number, asked.incarnation), with_worker(state, number, asked)
        return
    given, versions = worker.incarnation, set()
    has_left = bool(worker.outbox) and size.scripts[number][worker.outbox[2]] == LEAVE
    has_left = (has_left or worker.said == rounds.HAS_LEFT) and size.broken != "one that has left joins steps"
    for line in range(size.num_servers):
        message = Declare(number, worker.life, given, line, worker.term, has_left)
        node = serving(state, line, worker.term)
        entry = None if node is None else node.entries[number]
        if entry is None or entry.life != worker.life:
            if entry is not None and 0 < given <= entry.incarnation:  # a former life has got it
                again = worker._replace(incarnation=0)
                yield (IS_REFUSED, number, given), with_worker(state, number, again)
            elif message not in state.sent:
                sent = state._replace(sent=state.sent | {message})
                yield (DECLARES, number, worker.life, line), sent
            return
        assert node is not None
        if not is_on_copy(size, state, line, node, (number, entry.incarnation)):
            return
        given = given or node.entries[number].incarnation
        versions.add(node.version if size.is_sync else has_pushes(size, node))
    if len(versions) > 1:
        return  # they are at different steps, or one has nothing yet: they are asked again until they agree
    assert first is not None
    script, made = size.scripts[number], first.entries[number].made
    at = max((place + 1 for place, kind in enumerate(script) if made[place] and kind != LEAVE), default=0)
    joined = worker._replace(stage="run", incarnation=given, at=at, number=0, said=())
    yield (JOINS, number, given, at), with_worker(state, number, joined)


def _join_again(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Declare this life on a server that has taken another's place without all that the other had acknowledged."""
    for line in range(size.num_servers):
        node = serving(state, line, worker.term)
        message = Declare(number, worker.life, worker.incarnation, line, worker.term, False)
        if node is not None and node.entries[number].incarnation < worker.incarnation and message not in state.sent:
            yield (JOINS_AGAIN, number, worker.incarnation, line), state._replace(sent=state.sent | {message})


def _begin(size: Size, state: State, number: int, worker: Worker) -> Iterator[Step]:
    """Write the next change down, or end."""
    script = size.scripts[number]
    if worker.at == len(script):
        ended = Worker(stage="done", term=NO_MORE)
        yield (ENDS, number), with_worker(state, number, ended)
        return
    begun = worker._replace(stage="send", number=worker.number + 1)
    told = BEGINS
    if not _is_unwritten(size, script[worker.at]):
        begun = begun._replace(outbox=(begun.incarnation, begun.number, begun.at))
        told = WRITES
    yield (told, number, begun.number, script[begun.at], begun.at), with_worker(state, number, begun)


def _is_unwritten(size: Size, kind: str) -> bool:
    """Whether a change is sent that was not written down."""
    return size.broken == "send before writing down" or (size.broken == "leave unwritten" and kind == LEAVE)


def _send(size: Size, state: State, number: int, worker: Worker, intent: tuple[int, ...]) -> Iterator[Step]:
    """Send the change to each server, and hear of each that it has it; then go on."""
    incarnation, change, place = intent
    messages = [Change(number, incarnation, change, place, line, worker.term) for line in range(size.num_servers)]
    answers = {one.line: answer_to(size, state, one) for one in messages if one.line not in worker.heard}
    if worker.stage == "again":  # a server that knows nothing of that life says so, and what it wanted is given up
        for one in messages:
            node = serving(state, one.line, one.term)
            if one.line in answers and node is not None and node.entries[number].incarnation < incarnation:
                answers[one.line] = "over"
    if not state.sent.issuperset(one for one in messages if one.line not in worker.heard and not answers[one.line]):
        after = state._replace(sent=state.sent.union(messages))
        yield (SENDS, number, change, incarnation), after
    for line, answer in answers.items():
        if answer is None:
            continue
        heard = worker._replace(heard=tuple(sorted((*worker.heard, line))))
        if answer == "over":
            heard = heard._replace(said=rounds.IS_OVER)
        after = state
        if answer == "made" and not (in_rounds(size) and size.scripts[number][place] == PUSH):
            after = state._replace(acknowledged=state.acknowledged | {(line, number, place)})
        if len(heard.heard) == size.num_servers:
            is_again, settling = heard.stage == "again", rounds.begin(size, heard, intent, number)
            following = ("former" if in_rounds(size) else "join") if is_again else "run"
            if settling is None or (is_again and heard.said):
                heard = heard._replace(stage=following, heard=(), said=(), at=heard.at + (not is_again))
            else:
                heard = settling
        yield (HEARS, number, change, incarnation, line, answer), with_worker(after, number, heard)
    if size.broken == "send before writing down" and worker.stage == "send" and worker.outbox != intent:
        written = with_worker(state, number, worker._replace(outbox=intent))
        yield (WRITES_LATE, number, change), written
