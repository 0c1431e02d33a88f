"""Who takes the place of a meeting point that is lost, in a job whose servers have copies.

Every launcher listens at a door of its own from the beginning, and looks there only when it has lost the meeting point.
It goes to the first launcher, in the order of the machines, whose door can be reached, or waits at its own if it is the
first. A door that refuses has no launcher behind it. Whoever comes brings the newest orders that its machine has
written down and what it has, so that nothing of the former meeting point is needed; the machines that do not come are
lost, and those that do must be more than half (`standby.keeper`).
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet import net
from fleet.errors import CommunicationError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.guest import Guest, say
from fleet.launch.meet.host import FormerMeeting, Host
from fleet.launch.meet.job_token import JobToken, is_nonce, new_nonce
from fleet.launch.meet.line import PROTOCOL, HungUpError, MessageLine
from fleet.launch.meet.link import Link, ReturnTicket
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.reach import Patience, probe
from fleet.launch.standby.keeper import Keeper, too_few
from fleet.launch.standby.orders import MachineAccount

log = logging.getLogger("fleetrun")

_CONNECT_S = 2.0
_SPEAK_S = 5.0
"""How long a launcher at our door may take to say each thing."""
_MORE_S = 5.0
"""How much longer than its patience a launcher waits for the others, who may notice later."""
_LOOK_S = 0.1
_PROBE_S = 0.5


def open_door(host: str) -> socket.socket:
    """Listen where the other launchers of the job can reach this machine."""
    address = net.own_address(host)
    return socket.create_server((address, 0), family=net.family_of(address), backlog=128)


@dataclass(frozen=True)
class Succession:
    """What a launcher needs to go on without the meeting point."""

    me: int
    offers: tuple[Offer, ...]
    restart: int
    door: socket.socket
    nodes: Nodes
    token: JobToken
    patience: Patience
    account: Callable[[], MachineAccount]
    is_leaving: Callable[[], bool]

    def follow(self, lost: int, why: str) -> tuple[Link, int]:
        """The connection to the new meeting point, and which machine it is on; CommunicationError if there is none."""
        orders = self.account().orders
        left = [machine for machine in orders.machines if machine != lost]
        if 2 * len(left) <= len(orders.machines):
            raise CommunicationError(f"{why}; {too_few(left, orders)}")
        log.warning("%s; meeting the other machines at another one", why)
        for machine in left:
            if machine == self.me:
                return self._lead({one for one in left if one != machine}, why), machine
            with contextlib.suppress(OSError, CommunicationError):
                return self._come_to(machine), machine
        raise CommunicationError(f"{why}; this machine is not one of the job's any more")

    def _come_to(self, machine: int) -> Link:
        """Be a guest there; OSError or CommunicationError if nobody is, or it does not become the meeting point."""
        door = self.offers[machine].door
        assert door is not None
        line = MessageLine(socket.create_connection((door.host, door.port), timeout=_CONNECT_S))
        try:
            nonce = new_nonce()
            line.send(protocol=PROTOCOL, succeed=self.me, nonce=nonce)
            asked = self._wait_for(line)
            if not is_nonce(asked.get("challenge")):
                raise CommunicationError("another program listens there now")
            session, said = asked["challenge"] + nonce, self.account().to_json()
            line.send(protocol=PROTOCOL, account=said, proof=self.token.seal("succeed", session, said))
            welcome = self._wait_for(line)
            seat = self._seat(welcome, session)
            line.socket.settimeout(None)
            probe(line.socket, self.patience)
        except BaseException:
            line.close()
            raise
        session = session if self.token.is_given else ""
        return Link(door, self.offers[self.me].host, line, self.patience, session, seat)

    def _wait_for(self, line: MessageLine) -> dict[str, Any]:
        """What the other one says; it may still have to notice that the meeting point is lost."""
        until = time.monotonic() + 2 * self.patience.seconds + 2 * _MORE_S
        while not line.is_ready(_LOOK_S):
            if self.is_leaving() or time.monotonic() > until:
                raise HungUpError(f"it could not be reached for {self.patience}")
        return line.receive()

    def _seat(self, welcome: dict[str, Any], session: str) -> ReturnTicket:
        name, ticket = welcome.get("name"), welcome.get("ticket")
        if not self.token.fits(welcome.get("proof"), "succeeded", session, {"name": name}) or not is_nonce(name):
            raise CommunicationError("another program listens there now")
        key = self.token if self.token.is_given else JobToken(str(ticket), is_given=False)
        return ReturnTicket(str(name), key)

    def _lead(self, others: set[int], why: str) -> Link:
        """Be the meeting point, with those who come."""
        guests: dict[int, Guest] = {}
        accounts: dict[int, MachineAccount] = {}
        missing = set(others)
        until = time.monotonic() + self.patience.seconds + _MORE_S
        probe_at = 0.0
        self.door.settimeout(_LOOK_S)
        while missing - set(guests) and time.monotonic() < until and not self.is_leaving():
            try:
                connection = self.door.accept()[0]
            except TimeoutError:
                pass
            else:
                self._admit(connection, others, guests, accounts)
            if time.monotonic() > probe_at:
                probe_at = time.monotonic() + _PROBE_S
                missing -= {machine for machine in missing - set(guests) if self._is_gone(machine)}
        if self.is_leaving():
            raise CommunicationError(f"{why}; this machine leaves")
        accounts[self.me] = self.account()
        own = self.offers[self.me]
        keeper = Keeper.taking_over(self.me, accounts, why)
        former = FormerMeeting(keeper, self.restart, self.offers, self.me, tuple(guests.values()))
        point = own.door
        assert point is not None
        host = Host(self.door, point, self.nodes, 0, self.me, own, self.token, 0.0, self.patience, former)
        return Link(point, own.host, MessageLine(host.own_end), self.patience, host=host)

    def _admit(
        self, connection: socket.socket, others: set[int], guests: dict[int, Guest], accounts: dict[int, MachineAccount]
    ) -> None:
        """Take in one of the others; whoever else has come is sent away."""
        connection.settimeout(_SPEAK_S)
        line = MessageLine(connection)
        try:
            hello = line.receive()
            machine, nonce, challenge = hello.get("succeed"), hello.get("nonce"), new_nonce()
            if hello.get("protocol") != PROTOCOL or type(machine) is not int or not is_nonce(nonce):
                raise CommunicationError("not a fleetrun of this version")
            line.send(protocol=PROTOCOL, challenge=challenge)
            answer = line.receive()
            session, said = f"{challenge}{nonce}", answer.get("account")
            if not isinstance(said, dict) or not self.token.fits(answer.get("proof"), "succeed", session, said):
                raise CommunicationError("another program listens there now")
            account = MachineAccount.from_json(said)
            if machine not in others or machine in guests:
                raise CommunicationError("it is in another round")
        except (OSError, CommunicationError) as error:
            log.debug("somebody came to the door: %s", error)
            line.close()
            return
        key = self.token if self.token.is_given else JobToken(new_nonce(), is_given=False)
        guest = Guest(connection, session if self.token.is_given else "", None, None, key, place=machine)
        ticket = {} if key.is_given else {"ticket": key.value}
        proof = self.token.seal("succeeded", session, {"name": guest.name})
        say(connection, say="welcome", name=guest.name, proof=proof, **ticket)
        guests[machine], accounts[machine] = guest, account

    def _is_gone(self, machine: int) -> bool:
        """Whether no launcher is behind a door: its kernel refuses; one that cannot be reached says nothing."""
        door = self.offers[machine].door
        assert door is not None
        try:
            socket.create_connection((door.host, door.port), timeout=_LOOK_S).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False
