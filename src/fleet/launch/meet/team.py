"""The launchers of a job's machines, joined by open connections, so that they start, fail and end together.

A `Round` is one attempt at the job: who takes part, and how often it was started before. A team meets for a round, runs
it, and meets again if the job goes on. In a round, `done` says that a machine's workers have finished, `failed` that
one of its processes failed; a connection that closes says that a machine is gone, and one that breaks is made anew
(`link`). What this launcher learns arrives as news of the round it is about. The meeting point (`host`) decides; on a
single machine, the team itself does.
"""

import functools
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from fleet.errors import CommunicationError, DeadlineError, EndpointError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet import meeting
from fleet.launch.meet.host import STOPPING_S
from fleet.launch.meet.job_token import JobToken
from fleet.launch.meet.line import DismissedError
from fleet.launch.meet.link import Link
from fleet.launch.meet.messages import AllDone, JobOverError, NodeFailed, Offer, Regroup, Scaled
from fleet.launch.meet.reach import Patience
from fleet.launch.meet.succession import Succession, open_door
from fleet.launch.standby.orders import MachineAccount, Orders
from fleet.net import Endpoint

log = logging.getLogger("fleetrun")


@dataclass(frozen=True)
class Round:
    """One attempt at the job, as one launcher sees it."""

    restart: int
    """How often the job was started before."""
    num_failures: int
    """How many of these starts followed a failure; a machine that joined is not one."""
    why: str = ""
    """What ended the round before."""
    offers: tuple[Offer, ...] = ()
    """What each machine brings, in the order of their indexes; empty on a single machine."""
    node_index: int = 0
    host: int = 0
    """The machine of the meeting point."""
    news: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    """NodeFailed, Regroup and AllDone, about this round alone; the launcher adds events of its own."""

    @property
    def num_nodes(self) -> int:
        """How many machines take part."""
        return max(1, len(self.offers))


class Team:
    """The launchers of a job, seen from one of them."""

    def __init__(self, token: JobToken, max_restart: int, is_durable: bool = False, has_copies: bool = False) -> None:
        self.token = token
        """This launcher's own until the first round, then that of the job: the same on every machine."""
        self._max_restart = max_restart
        self._is_durable = is_durable
        self._has_copies = has_copies
        self._nodes = Nodes(1, 1)
        self._link: Link | None = None
        self._round: Round | None = None
        self.has_begun = False
        """Whether there was a round, so that the others count on this machine."""
        self._num_failures = 0
        self._answers: SimpleQueue[tuple[dict[str, Any], SimpleQueue[Any]]] = SimpleQueue()
        self._reader: threading.Thread | None = None
        self._host_name = "the machine of the meeting point"
        self._host = 0
        self._door: socket.socket | None = None
        """Where the others come if this launcher has to be the meeting point."""
        self._account: MachineAccount | None = None
        self._failure: NodeFailed | None = None
        self._speaking = threading.Lock()
        """Held while it changes who the meeting point is, and what it is told first."""
        self._is_leaving = False

    @property
    def goes_on(self) -> bool:
        """Whether it makes sense to meet again after a round that ended too early."""
        if self._link is None:
            return self._num_failures <= self._max_restart
        return self._max_restart > 0 or self._nodes.is_range

    @property
    def address(self) -> str:
        """This machine's in the job; empty before it has come to the meeting point."""
        return "" if self._link is None else self._link.address

    def alone(self) -> Round:
        """The next round of a job on one machine."""
        restart = 0 if self._round is None else self._round.restart + 1
        self._round = Round(restart, self._num_failures)
        return self._round

    def meet(self, point: Endpoint, nodes: Nodes, rank: int | None, make_offer: Callable[[str], Offer]) -> Round:
        """The next round of a job on several machines, once they have met at `point`; JobOverError if there is none.

        `make_offer` is given this machine's address in the job and holds its ports for this round.
        """
        if self._link is None:
            self._nodes = nodes
            with_door = functools.partial(self._with_door, make_offer)
            patience = Patience.of_job(is_durable=self._is_durable, has_copies=self._has_copies)
            self._link = meeting.join(point, nodes, self._max_restart, rank, self.token, with_door, patience)
            self._reader = threading.Thread(target=self._read, args=(self._link,), name="team", daemon=True)
            self._reader.start()
        else:
            assert self._round is not None
            log.info("meeting the other machines again at %s", point)
            offer = make_offer(self._link.address)
            message = {"say": "again", "restart": self._round.restart + 1, "offer": offer.to_json()}
            if self._link.is_sealed:
                message["proof"] = self.token.seal("guest", self._link.session, message)
            self._link.send(**message)
        return self._await_round(self._link)

    def done(self) -> None:
        """Tell the others that this machine's workers have finished."""
        if self._link is not None:
            self._link.send(say="done")
        elif self._round is not None:
            self._round.news.put(AllDone())

    def failed(self, failure: NodeFailed) -> None:
        """Tell the others that a process of this machine failed."""
        self._num_failures += 1
        with self._speaking:
            self._failure = failure
            if self._link is not None:
                self._link.send(**failure.to_json())

    def tell(self, account: MachineAccount) -> None:
        """Tell the meeting point what this machine has; another one that takes its place hears it again."""
        with self._speaking:
            self._account = account
            if self._link is not None:
                self._link.send(say="account", **account.to_json())

    def share(self, told: Scaled) -> None:
        """Have all launchers of this round hear this, this one among them, in one order."""
        if self._link is not None:
            self._link.send(**told.to_json())
        elif self._round is not None:
            self._round.news.put(told)

    def close(self, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Leave the team; unless in a hurry, wait for machines out of reach, so that they hear how the job ended."""
        if self._link is None or self._reader is None:
            return
        self._is_leaving = True
        with self._speaking:
            link = self._link
        link.close(is_hurried)
        self._reader.join(timeout=10)
        link.release()
        if self._door is not None:
            self._door.close()

    def _with_door(self, make_offer: Callable[[str], Offer], address: str) -> Offer:
        offer = make_offer(address)
        if not self._has_copies:
            return offer
        self._door = open_door(address)
        return replace(offer, door=Endpoint(address, self._door.getsockname()[1]))

    def _await_round(self, link: Link) -> Round:
        """Wait for the list of machines, at most as long as launchers wait for each other.

        One for whom the job has no room now waits as long as the job runs, whose end is the end of the waiting.
        """
        timeout_s: float | None = (
            meeting.timeout_s() + 1.0 + STOPPING_S
        )  # the meeting point, which knows more, gives up before
        while True:
            try:
                answer, news = self._answers.get(timeout=timeout_s)
            except Empty:
                raise DeadlineError(
                    f"waited at {link.point} for the other machines; start fleetrun on all of them"
                ) from None
            if answer.get("say") != "wait":
                break
            log.info("the job at %s is running; this machine waits until it starts again and takes it in", link.point)
            timeout_s = None
        is_proven = not link.is_sealed or self.token.fits(answer.pop("proof", None), "host", link.session, answer)
        if answer.get("say") == "over":
            reason, code = str(answer.get("reason")), answer.get("code")
            if code == 0 and not is_proven:  # who breaks into the connection can end our part, but not as a success
                code = 1
            where = "" if link.host is not None else f"the meeting at {link.point} ended: "
            raise JobOverError(f"{where}{reason}", code if isinstance(code, int) and 0 <= code < 256 else None)
        if not is_proven:
            raise EndpointError(
                f"what listens at the meeting point {link.point} did not prove that it knows FLEET_JOB_TOKEN; "
                "set the same on every machine, or choose another port"
            )
        if link.host is None and not link.is_sealed:
            self.token = JobToken.from_host(answer.get("token"))
        self._round = self._read_round(answer, news)
        return self._round

    def _read_round(self, answer: dict[str, Any], news: SimpleQueue[Any]) -> Round:
        """What the meeting point said; CommunicationError if it makes no sense."""
        try:
            offers = tuple(map(Offer.from_json, answer["offers"]))
            self._host = int(answer["host"])
            self._host_name = f"machine {self._host} ({offers[self._host].host})"
            restart, num_failures, index = (int(answer[name]) for name in ("restart", "failures", "rank"))
            this = Round(restart, num_failures, str(answer["why"]), offers, index, self._host, news)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise CommunicationError(f"the meeting point sent a list that cannot be read: {error}") from error
        is_old = self._round is not None and restart <= self._round.restart
        if is_old or index not in range(len(offers)):
            raise CommunicationError(f"the meeting point sent round {restart} with index {index}")
        return this

    def _read(self, link: Link) -> None:
        """Turn what the meeting point says into news of the round it is about, or into an answer of a meeting."""
        news: SimpleQueue[Any] = SimpleQueue()
        while True:
            try:
                while True:
                    news = self._take(link.receive(), news)
            except Exception as error:  # of whatever kind: without this thread nothing would ever be heard
                gone = f"{self._host_name} is gone: {error}"
                found = self._succeed(link, error, gone, news)
            if found is None:
                return
            link = found

    def _take(self, message: dict[str, Any], news: SimpleQueue[Any]) -> SimpleQueue[Any]:
        """Pass on what was said; returns where the next news belong."""
        match message.get("say"):
            case "failed":
                news.put(NodeFailed.from_json(message))
            case "regroup":
                news.put(Regroup(str(message.get("why"))))
            case "all done":
                news.put(AllDone())
            case "scale":
                news.put(Scaled.from_json(message))
            case "orders":
                news.put(Orders.from_json(message.get("orders") or {}))
            case "begin":
                news = SimpleQueue()
                self.has_begun = True
                self._answers.put((message, news))
            case "wait" | "over":
                self._answers.put((message, news))
        return news

    def _succeed(self, link: Link, error: Exception, gone: str, news: SimpleQueue[Any]) -> Link | None:
        """The connection to the launcher that takes the place of the meeting point; None if it is all over."""
        account, this = self._account, self._round
        if account is not None and account.orders.is_over and not link.has_ended:
            news.put(AllDone())  # as it was about to say
        may_go_on = account is not None and not (link.has_ended or self._is_leaving or account.orders.is_over)
        if self._door is not None and this is not None and may_go_on and not isinstance(error, DismissedError):
            try:
                return self._go_over(link, this, self._door, gone)
            except Exception as end:  # as above
                gone = str(end)
        news.put(NodeFailed(gone, 1, time.time()))
        self._answers.put(({"say": "over", "reason": gone}, news))
        return None

    def _go_over(self, link: Link, this: Round, door: socket.socket, gone: str) -> Link:
        succession = Succession(
            this.node_index,
            this.offers,
            this.restart,
            door,
            self._nodes,
            self.token,
            Patience.of_job(is_durable=True, has_copies=True),
            self._known,
            lambda: self._is_leaving,
        )
        new, self._host = succession.follow(self._host, gone)
        self._host_name = f"machine {self._host} ({this.offers[self._host].host})"
        with self._speaking:
            if self._is_leaving:
                new.close(lambda: True)
                raise CommunicationError(f"{gone}; this machine leaves")
            self._link = new
            new.send(say="account", **self._known().to_json())
            if self._failure is not None:
                new.send(**self._failure.to_json())
        link.close(lambda: True)
        link.release()
        return new

    def _known(self) -> MachineAccount:
        assert self._account is not None
        return self._account
