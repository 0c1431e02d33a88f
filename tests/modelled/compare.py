"""Has real services and clients follow the model action by action, and says where they differ from it.

What is compared after each action, on each server: the present incarnation of each worker, the numbers that its ledger
has, who is waited for, the step, and how often each change has changed the rows. And with each answer that a worker
hears: whether the change was made, or the life is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet.errors import FleetError, NotReadyError, OutdatedError
from modelled import servers, workers
from modelled.checker import Action, told
from modelled.real import BEGIN, DECAY, SHOWS, Held, RealServer, RealWorker, close_all, keys_of
from modelled.servers import answer_to, received
from modelled.state import PUSH, SHRINK, Change, Declare, Size, State
from modelled.system import Job

Message = Change | Declare


class DifferenceError(AssertionError):
    """The code does something else than the model says."""


class Pair:
    """A model and the real thing, at the same place."""

    def __init__(self, size: Size, folder: Path) -> None:
        self.size, self.folder = size, folder
        self.system = Job(size, keeps_all=True)
        self.now: State = self.system.first()
        self.servers = [RealServer(folder / f"server-{number}") for number in range(size.num_servers)]
        self.workers = [RealWorker(size, number, folder) for number in range(len(size.scripts))]
        self.trace: list[Action] = []
        self._known: dict[Message, Held] = {}
        """Every message that was ever sent, as it was."""
        self._shows: list[dict[int, float]] = [{} for _ in self.servers]
        """What the model says that the tables hold."""

    def close(self) -> None:
        """Leave nothing behind."""
        close_all(self.servers, self.workers)

    def steps(self) -> list[tuple[Action, State]]:
        """What the model says may happen now and the code can be made to do."""
        return sorted(
            (step for step in self.system.steps(self.now) if self._can(step[0])), key=lambda step: str(step[0])
        )

    def take(self, step: tuple[Action, State]) -> None:
        """Have both do it, and compare them."""
        action, after = step
        self.trace.append(action)
        before, self.now = self.now, after
        self._expect(before)
        self._do(action, before)
        for number, worker in enumerate(self.workers):
            self._note(number, worker)
            if worker.error is not None:
                self._differ(f"worker {number} has failed: {worker.error!r}")
        for number, server in enumerate(self.servers):
            self._compare(number, server)

    def repeat(self) -> list[Message]:
        """The messages that were sent, and would change nothing now."""
        return [one for one in self._known if self._changes_nothing(one)]

    def take_again(self, message: Message) -> None:
        """Give a server a message that changes nothing, and compare."""
        held = self._known[message]
        self.trace.append(("server {0} gets again, or late: {1}", message.line, message))
        answer = self.servers[message.line].deliver(held.method, held.header, held.tensors)
        if isinstance(message, Change):
            self._check_answer(message, answer)
        self._compare(message.line, self.servers[message.line])

    def _changes_nothing(self, message: Message) -> bool:
        line = self.now.lines[message.line]
        return received(self.size, line, 0, message) is line

    def _check_answer(self, message: Change, answer: Any) -> None:
        expected, entry = answer_to(self.size, self.now, message), self._entry(message)
        if expected == "over":
            is_so = isinstance(answer, OutdatedError)
        elif expected == "made" or message.incarnation == entry.incarnation:  # or a push that waits for its step
            is_so = not isinstance(answer, FleetError)
        else:
            is_so = isinstance(answer, NotReadyError)
        if not is_so:
            self._differ(f"{message} is answered by {answer!r}, and is {expected or 'not known'} in the model")

    def _entry(self, message: Message) -> Any:
        return self.now.lines[message.line].nodes[0].entries[message.worker]

    def _can(self, action: Action) -> bool:
        """Whether the real thing can be made to do it as it is."""
        name, first, *rest = action
        if name == servers.TAKES_CHANGE:
            return self._sent(first, rest[1], rest[2], rest[0]) is not None
        if name == workers.HEARS:
            worker = self.now.workers[first]
            is_old = worker.stage == "again"  # what it finishes may be on all servers, and forgotten
            return is_old or any(call.server == rest[2] for call in self.workers[first].calls)
        if name == workers.DIES:
            return not self.workers[first].is_over
        return True

    def _sent(self, line: int, worker: int, incarnation: int, number: int) -> Held | None:
        found = (
            held
            for one, held in self._known.items()
            if isinstance(one, Change) and (one.line, *one[:3]) == (line, worker, incarnation, number)
        )
        return next(found, None)

    def _note(self, number: int, worker: RealWorker) -> None:
        """Note what a worker has sent."""
        for call in worker.calls:
            caller = call.header.caller
            if call.method == "Declare" and caller.incarnation:
                life, has_left = self.now.workers[number].life, call.header.has_left
                self._known[Declare(number, life, caller.incarnation, call.server, 0, has_left)] = call
            elif call.method not in ("Declare", BEGIN):
                for one in self.now.sent:
                    if isinstance(one, Change) and (one.line, *one[:3]) == (
                        *(call.server, number, caller.incarnation, call.header.sequence),
                    ):
                        self._known[one] = call

    def _do(self, action: Action, before: State) -> None:
        name, first, *rest = action
        if name == servers.TAKES_LIFE:
            message = next(
                one for one in self._known if isinstance(one, Declare) and (one.line, *one[:2]) == (first, *rest)
                and received(self.size, before.lines[first], 0, one) is not before.lines[first]
            )  # fmt: skip
            self._deliver(self._known[message])
        elif name == servers.TAKES_CHANGE:
            held = self._sent(first, rest[1], rest[2], rest[0])
            assert held is not None
            answer = self._deliver(held)
            if isinstance(answer, FleetError):
                self._differ(f"server {first} refuses what it takes in the model: {answer!r}")
        elif name == servers.RESTARTS:
            self.servers[first].restart()
        else:
            self._do_worker(name, first, rest)

    def _do_worker(self, name: str, number: int, rest: list[Any]) -> None:
        worker, model = self.workers[number], self.now.workers[number]
        if name == workers.DIES:
            worker.kill()
            self.workers[number] = RealWorker(self.size, number, self.folder)
            self._pass_old_push(number)
        elif name == workers.ASKS:
            reply = self._answer(worker, 0, "Declare")
            if reply.incarnation != model.incarnation:
                self._differ(f"worker {number} may be {reply.incarnation}, in the model {model.incarnation}")
        elif name == workers.IS_REFUSED:
            self._answer(worker, 0, "Declare")
        elif name == workers.DECLARES and rest[1]:
            self._answer(worker, rest[1] - 1, "Declare")
        elif name == workers.JOINS:
            self._answer(worker, self.size.num_servers - 1, "Declare")
            while worker.calls and worker.calls[0].method == "Declare":  # the first answers were of different steps
                self._answer(worker, worker.calls[0].server, "Declare")
            if worker.at != model.at:
                self._differ(f"worker {number} goes on at {worker.at}, in the model at {model.at}")
        elif name == workers.WRITES:
            worker.answer(next(call for call in worker.calls if call.method == BEGIN), None)
        elif name == workers.HEARS:
            change, incarnation, line, answer = rest
            held = self._sent(line, number, incarnation, change)
            if held in worker.calls:
                heard = self._deliver(held)
                asked = next(one for one, call in self._known.items() if call is held)
                assert isinstance(asked, Change)
                self._check_answer(asked, heard)
                worker.answer(held, heard)
            elif answer == "made" and model.stage != "again" and model.stage != "join":
                self._differ(f"worker {number} does not wait for server {line}")
        elif name == workers.ENDS and not worker.is_over:
            self._differ(f"worker {number} does not end")

    def _pass_old_push(self, number: int) -> None:
        """Answer the push that a life finds in its outbox beside the change that it has to finish, if it has."""
        worker, outbox = self.workers[number], self.now.workers[number].outbox

        def is_intent(call: Held) -> bool:
            return call.header.caller.incarnation == outbox[0] and getattr(call.header, "sequence", 0) == outbox[1]

        while worker.calls and worker.calls[0].method == "Push" and not is_intent(worker.calls[0]):
            worker.answer(worker.calls[0], self._deliver(worker.calls[0]))
        if not outbox or any(map(is_intent, worker.calls)):
            return
        for line in self.now.lines:
            entry = line.nodes[0].entries[number]
            if entry.incarnation == outbox[0] and outbox[1] not in entry.taken:
                self._differ(f"worker {number} does not finish change {outbox[1]} of incarnation {outbox[0]}")

    def _answer(self, worker: RealWorker, server: int, method: str) -> Any:
        """Give a worker the answer to a call, as it is now."""
        call = next(call for call in worker.calls if (call.server, call.method) == (server, method))
        answer = self._deliver(call)
        if isinstance(answer, FleetError):
            self._differ(f"worker {worker.number} is refused: {answer!r}")
        worker.answer(call, answer)
        return answer[0]

    def _deliver(self, call: Held) -> Any:
        return self.servers[call.server].deliver(call.method, call.header, call.tensors)

    def _expect(self, before: State) -> None:
        """What the present step makes of the rows."""
        for number, line in enumerate(self.now.lines):
            made = list(_made(self.size, before.lines[number].nodes[0].entries, line.nodes[0].entries))
            shows = self._shows[number]
            for worker, place, kind in made:
                if kind == PUSH:
                    key = keys_of(self.size, worker, place)[number]
                    shows[key] = shows.get(key, 0.0) + SHOWS
                elif kind == SHRINK:
                    shows.update({key: number * DECAY for key, number in shows.items()})

    def _compare(self, number: int, server: RealServer) -> None:
        """Compare one server with the model's."""
        state, node = server.service.state, self.now.lines[number].nodes[0]
        if (found := server.shows()) != self._shows[number]:
            self._differ(f"server {number} holds {found}, in the model {self._shows[number]}")
        if state.holdings is None:
            return
        present, pending = set(state.rounds.to_json()["present"]), state.rounds.pending()
        for worker, entry in enumerate(node.entries):
            taken = state.ledger.taken(worker)
            numbers = {*range(1, taken.upto + 1), *taken.later}
            collected = {one[2] for one in node.collected if one[0] == worker}
            real: tuple[Any, ...] = taken.incarnation, numbers, worker in present, pending.get(worker)
            wanted = entry.incarnation, {*entry.taken, *collected}, entry.is_present, next(iter(collected), None)
            if real != wanted:
                self._differ(f"server {number} has {real} of worker {worker}, in the model {wanted}")
        if self.size.is_sync and state.rounds.version != node.version:
            self._differ(f"server {number} is at step {state.rounds.version}, in the model {node.version}")

    def _differ(self, what: str) -> None:
        lines = (f"{number:3}. {told(action)}" for number, action in enumerate(self.trace, 1))
        raise DifferenceError("\n".join([f"{what}, after", *lines]))


def _made(size: Size, before: Any, after: Any) -> Iterator[tuple[int, int, str]]:
    """The changes that one of two ledgers has more: worker, place and kind."""
    for worker, (old, new) in enumerate(zip(before, after, strict=True)):
        for place, (one, two) in enumerate(zip(old.made, new.made, strict=True)):
            if two > one:
                yield worker, place, size.scripts[worker][place]
