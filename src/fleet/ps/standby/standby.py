"""What a process of a job whose servers have copies does beside serving: it watches the terms, and follows them."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from fleet.errors import CommunicationError
from fleet.net import Endpoint
from fleet.observe.metrics import events
from fleet.ps.durable.durability import Durability
from fleet.ps.proto import ps_pb2
from fleet.ps.standby.copies import Copies
from fleet.ps.standby.following import Following
from fleet.ps.standby.standing import Part, Standing
from fleet.ps.steps.core import EVERYBODY, Core
from fleet.ps.wire import faults
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.plane_client import PlaneTransport
from fleet.ps.wire.transport import Transport
from fleet.ps.wire.trust.own_token import token_for
from fleet.ps.wire.trust.plane_tls import PlaneTls
from fleet.ps.wire.trust.tls import Tls

LOOK_S = 0.05
"""How often the terms are looked at; a call from a newer one has them looked at at once."""

_log = logging.getLogger(__name__)


class Standby:
    """One process: a server with its copy, or a copy that may become a server."""

    def __init__(self, core: Core, durability: Durability, standing: Standing, promoted: Callable[[], None]) -> None:
        """`core.is_copy` says what it begins as. `promoted` is called when the copy has become the server."""
        self.standing = standing
        self.ended = threading.Event()
        """Set when this process has nothing to do any more, because it is a server no more."""
        self.failure = ""
        """Why it can do nothing any more, if that is not in order."""
        self._core, self._durability, self._promoted = core, durability, promoted
        self._closed = threading.Event()
        self.copies: Copies | None = None
        """What a server knows of its copy; None in a copy."""
        self._following: Following | None = None
        core.admit, core.term = self._admit, standing.number
        if core.is_copy:
            connect = lambda endpoint: faults.with_faults_of_copy(_reach(endpoint), standing.server)  # noqa: E731
            self._following = Following(core, durability, standing, connect)
        else:
            self._begin_copies()
        self._thread = threading.Thread(target=self._watch, name="fleet-terms", daemon=True)
        self._thread.start()

    def answer(
        self, header: ps_pb2.FollowRequest.Header, tensors: Tensors
    ) -> tuple[ps_pb2.FollowReply.Header, Tensors]:
        """Answer a call of `Follow`."""
        assert self.copies is not None
        return self.copies.answer(header, tensors)

    def follows(self, call: Any, *, is_late: bool) -> bool:
        """Take a call of `Follow` that native code keeps; False if its answer takes a thread."""
        return self.copies is not None and self.copies.follow(call, is_late=is_late)

    def close(self) -> None:
        """Follow nobody any more, and let nobody wait for the copy."""
        self._closed.set()
        if self.copies is not None:
            self.copies.look()
        self._thread.join()
        if self._following is not None:
            self._following.stop()

    def _admit(self, term: int) -> None:
        if self._core.is_copy:
            error = CommunicationError(f"this process is a copy of server {self.standing.server}, and answers nobody")
            error.retryable = True
            raise error
        self.standing.admit(term)

    def _begin_copies(self) -> None:
        self.copies = self._durability.copied = Copies(self._core, self._durability, self.standing)

    def _watch(self) -> None:
        try:
            self._go_by_terms()
        except Exception as error:  # of any kind: nobody would hear of the next term
            what, term = self.standing.part.value, self.standing.number
            folder = self._durability.folder
            self._give_up(f"{folder}: this process cannot be {what} in term {term}: {error}; start the job again")

    def _go_by_terms(self) -> None:
        why = ""
        while not self._closed.wait(LOOK_S):
            if self.copies is not None:
                self.copies.tend()
                if self.copies.lost:
                    self._give_up(self.copies.lost)
            try:
                self.standing.look()
            except Exception as error:  # of any kind: a later term may be readable
                if str(error) != why:
                    why = str(error)
                    _log.warning("the terms of the job cannot be read, and are looked at again: %s", error)
                continue
            if self.standing.number == self._core.term and self._core.is_copy is (self.standing.part is Part.COPY):
                continue
            if self.standing.part is Part.DEPOSED:
                self._depose()
                return
            if self._core.is_copy and self.standing.part is Part.SERVER:
                self._promote()
                if self.failure:
                    return
            self._core.term = self.standing.number
            if self.copies is not None:
                self.copies.look()
            self._core.tell(EVERYBODY)

    def _promote(self) -> None:
        """Take the server's place: make what is written down, and begin to write records of our own."""
        assert self._following is not None
        began_at = time.monotonic()
        self._following.stop()
        if self._following.failure:
            why = self._following.failure
            self._give_up(f"the copy of server {self.standing.server} cannot take its place: {why}; load a checkpoint")
            return
        self._durability.lead()
        self._following = None
        self._begin_copies()
        self._core.is_copy = False
        self._promoted()
        version, took_s = self._core.state.rounds.version, time.monotonic() - began_at
        events.note("promoted", f"server {self.standing.server}, at version {version}")
        _log.warning(
            "this copy is server %d from now on, in term %d, at version %d: it took %.3f s",
            *(self.standing.server, self.standing.number, version, took_s),
        )

    def _depose(self) -> None:
        """Another process has taken this server's place: it takes nothing any more, and ends."""
        self._core.term = self.standing.number
        self._core.move()
        if self.copies is not None:
            self.copies.look()
        _log.warning("term %d has another process in the place of this server, which ends", self.standing.number)
        self.ended.set()

    def _give_up(self, why: str) -> None:
        self.failure = why
        self.ended.set()
        self._core.failure = why


def _reach(endpoint: str) -> Transport:
    """Reach a server as its workers do."""
    tls = Tls.from_environment()
    token = token_for(Endpoint.parse(endpoint))
    return PlaneTransport(GrpcTransport(endpoint, token, tls), token, None if tls is None else PlaneTls(tls))
