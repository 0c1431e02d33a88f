"""Conversations over connections that break anywhere: everything is heard once, in order; and how long is waited."""

from __future__ import annotations

import json
import random
import socket
import time

import pytest

from fleet.errors import CommunicationError, VariableError
from fleet.launch.meet.conversation import Conversation, Message
from fleet.launch.meet.reach import SUSPECT_S, Patience, probe, silent_s
from fleet.ps.job import patience as calls


class Side:
    """One end, with what is under way to the other."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self.under_way: list[Message] = []
        self.heard: list[int] = []

    def say(self, what: int) -> None:
        self.under_way.append(self.conversation.say({"say": what}))

    def hear(self, sender: Side) -> None:
        """The next message that comes."""
        message = json.loads(json.dumps(sender.under_way.pop(0)))
        if self.conversation.hear(message):
            self.heard.append(message["say"])
            assert "n" not in message
            self.under_way.append({"heard": self.conversation.num_heard})


def reconnect(one: Side, other: Side) -> None:
    """What was under way is lost; each says how far it has heard."""
    for side, peer in ((one, other), (other, one)):
        side.under_way.clear()
        side.conversation.acknowledge(peer.conversation.num_heard)
        side.under_way += side.conversation.unheard()


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_heard_once_and_in_order_however_often_the_connection_breaks(seed: int) -> None:
    rng = random.Random(seed)
    sides = [Side(), Side()]
    said = [0, 0]
    while min(said) < 30 or any(side.conversation.has_unheard for side in sides):
        number = rng.randrange(2)
        match rng.randrange(8):
            case 0 | 1 if said[number] < 30:
                sides[number].say(said[number])
                said[number] += 1
            case 2:
                reconnect(*sides)
            case _ if sides[1 - number].under_way:
                sides[number].hear(sides[1 - number])
    assert [side.heard for side in sides] == [list(range(said[1])), list(range(said[0]))]


def test_a_failure_that_is_told_late_is_older_then() -> None:
    conversation = Conversation()
    conversation.say({"say": "failed", "age_s": 5.0})
    time.sleep(0.02)
    for _ in range(2):
        (again,) = conversation.unheard()
        assert 5.01 < again["age_s"] < 60


@pytest.mark.parametrize("message", [{"n": 2}, {"n": "1"}, {"n": True}, {"heard": 1}, {"heard": -1}, {"heard": None}])
def test_numbers_that_cannot_be_are_refused(message: Message) -> None:
    with pytest.raises(CommunicationError):
        Conversation().hear(message)


def test_launchers_and_calls_share_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEET_RPC_TIMEOUT_S", "FLEET_RECOVERY_TIMEOUT_S", "FLEET_DURABLE"):
        monkeypatch.delenv(name, raising=False)
    assert Patience.of_job(is_durable=False) == Patience(calls.RPC_TIMEOUT_S, "FLEET_RPC_TIMEOUT_S")
    assert str(Patience.of_job(is_durable=True)) == "300 s (FLEET_RECOVERY_TIMEOUT_S)"
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "90")
    assert str(Patience.of_job(is_durable=False)) == "90 s (FLEET_RPC_TIMEOUT_S)"
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "0.5")
    assert Patience.of_job(is_durable=False).seconds == 5.0  # probes take a second
    monkeypatch.setenv("FLEET_DURABLE", "/somewhere")
    assert str(Patience.of_job(is_durable=False)) == "300 s (FLEET_RECOVERY_TIMEOUT_S)"
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "soon")
    with pytest.raises(VariableError, match="FLEET_RECOVERY_TIMEOUT_S"):
        Patience.of_job(is_durable=True)


def test_a_machine_answers_for_a_process_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as guest:
        probe(guest, Patience(60, "a test"))
        longest = 0.0
        for _ in range(16):
            time.sleep(0.1)
            longest = max(longest, silent_s(guest))
        assert 0.3 < longest < SUSPECT_S
    one, other = socket.socketpair()
    with one, other:
        assert silent_s(one) == 0.0
