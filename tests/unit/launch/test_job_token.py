"""The secret of a job: whose it is, what proves it, and that nothing shows it."""

from __future__ import annotations

import re

import pytest

from fleet import env
from fleet.errors import CommunicationError, VariableError
from fleet.launch.meet.job_token import JobToken, is_nonce, new_nonce, own_token

GIVEN = {"FLEET_JOB_TOKEN": "sesame"}
IN_A_JOB = {"FLEET_JOB_ID": "0123"}
MESSAGE = {"offer": ["a", 1], "rank": None}


def test_every_job_has_a_token_of_its_own() -> None:
    tokens = [own_token({}) for _ in range(3)]
    assert len({token.value for token in tokens}) == 3
    assert all(re.fullmatch(r"fleetrun-[0-9a-f]{64}", token.value) for token in tokens)
    assert not any(token.is_given for token in tokens)


def test_the_user_may_give_one() -> None:
    assert own_token(GIVEN) == JobToken("sesame", is_given=True)


def test_a_job_inside_a_job_keeps_the_user_s_token_but_not_a_made_one() -> None:
    made = {"FLEET_JOB_TOKEN": own_token({}).value}
    assert own_token(IN_A_JOB | GIVEN) == JobToken("sesame", is_given=True)
    inner = own_token(IN_A_JOB | made)
    assert inner.value != made["FLEET_JOB_TOKEN"]
    assert not inner.is_given
    assert own_token(made).is_given  # not in a job: somebody has set it, to join one


def test_children_get_the_token_of_their_own_job_alone() -> None:
    assert env.without_roles({"HOME": "/", **GIVEN, **IN_A_JOB}) == {"HOME": "/", **IN_A_JOB}


def test_a_seal_fits_one_thing() -> None:
    token = own_token({})
    seal = token.seal("guest", "session", MESSAGE)
    assert token.fits(seal, "guest", "session", dict(reversed(MESSAGE.items())))
    assert not token.fits(seal, "host", "session", MESSAGE)
    assert not token.fits(seal, "guest", "another", MESSAGE)
    assert not token.fits(seal, "guest", "session", MESSAGE | {"rank": 1})
    assert not own_token({}).fits(seal, "guest", "session", MESSAGE)
    assert token.value not in seal


@pytest.mark.parametrize("seal", [None, 3, "", "\udc80", "\u00e9" * 64, ["a"], b"bytes"])
def test_what_is_no_seal_does_not_fit(seal: object) -> None:
    assert not own_token({}).fits(seal, "guest", "session", MESSAGE)


def test_a_message_without_end_does_not_fit() -> None:
    endless: list[object] = []
    for _ in range(100_000):
        endless = [endless]
    assert not own_token({}).fits("seal", "guest", "session", {"offer": endless})


def test_nonces() -> None:
    assert new_nonce() != new_nonce()
    assert is_nonce(new_nonce())
    assert not any(is_nonce(value) for value in (None, 3, "", "a", "\u00e9" * 32, new_nonce() + "0"))


@pytest.mark.parametrize("value", [None, 3, "", "sesame", "fleetrun-\n", "fleetrun-\u00e9"])
def test_what_a_host_may_not_hand_out(value: object) -> None:
    with pytest.raises(CommunicationError, match="handed out no token"):
        JobToken.from_host(value)


def test_nothing_shows_it() -> None:
    assert "sesame" not in repr(own_token(GIVEN))
    with pytest.raises(VariableError) as caught:
        own_token({"FLEET_JOB_TOKEN": "s\u00e9same"})
    assert str(caught.value) == "FLEET_JOB_TOKEN must be printable ASCII text, the value it has is not shown"
