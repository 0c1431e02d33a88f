"""What `--chaos` understands, and what it says to the rest."""

from __future__ import annotations

import pytest

from fleet.errors import UsageError
from fleet_tools.chaos.spec import GRAMMAR, CallFault, Chaos, DiskFull, Strike, TornWrite, When

EVERYTHING = (
    "kill server every 5s; kill worker every 7s; kill both at 1.5m; stop server 3s every 20s; drop 1% rpc; "
    "kill copy at 2s; stop copy 500ms every 9s; "
    "delay 5% 200ms; repeat 0.5% rpc; disk-full at 30s; disk-full at 40s for 2s; torn-write at 10s"
)


def test_everything_is_read() -> None:
    assert Chaos.parse(EVERYTHING, "--chaos").clauses == (
        Strike("kill", "server", When(5, True)),
        Strike("kill", "worker", When(7, True)),
        Strike("kill", "both", When(90, False)),
        Strike("stop", "server", When(20, True), 3),
        CallFault("drop", 0.01),
        Strike("kill", "copy", When(2, False)),
        Strike("stop", "copy", When(9, True), 0.5),
        CallFault("delay", 0.05, 0.2),
        CallFault("repeat", 0.005),
        DiskFull(30, 5),
        DiskFull(40, 2),
        TornWrite(When(10, False)),
    )


def test_it_prints_as_it_is_read() -> None:
    chaos = Chaos.parse(EVERYTHING, "--chaos")
    assert Chaos.parse(str(chaos), "--chaos") == chaos
    assert str(chaos.without_torn_writes()) == str(chaos).removesuffix("; torn-write at 10s")


@pytest.mark.parametrize(
    ("text", "word", "wanted"),
    [
        ("kil server every 5s", "'kil'", "kill or stop or drop"),
        ("kill servers every 5s", "'servers'", "server or worker or both"),
        ("kill server 5s", "'5s'", "every or at"),
        ("kill server every 5", "'5'", "a time above zero, such as 5s"),
        ("kill server every 0s", "'0s'", "a time above zero"),
        ("kill server every", "", "a time above zero"),
        ("stop worker every 5s", "'every'", "a time above zero"),
        ("drop 1 rpc", "'1'", "a share of the calls, such as 1%"),
        ("drop 0% rpc", "'0%'", "a share of the calls"),
        ("repeat 101% rpc", "'101%'", "a share of the calls"),
        ("drop 1%", "", "rpc"),
        ("delay 5% 200ms calls", "'calls'", "rpc"),
        ("disk-full every 5s", "'every'", "at"),
        ("disk-full at 5s for", "", "a time above zero"),
        ("torn-write at 5s now", "'now'", "nothing more"),
    ],
)
def test_a_word_without_meaning_is_named(text: str, word: str, wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        Chaos.parse(f"kill server at 1s; {text}", "--chaos")
    said = str(caught.value)
    what = f"in {text!r} {word} stands" if word else f"{text!r} ends"
    assert said.startswith(f"--chaos: {what} where {wanted}")
    assert said.endswith(f"was expected; the grammar: {GRAMMAR}")
    assert "\n" not in said


def test_nothing_and_twice_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match="--chaos is empty; write some of: kill"):
        Chaos.parse(" ; ", "--chaos")
    with pytest.raises(UsageError, match="--chaos: drop stands there twice"):
        Chaos.parse("drop 1% rpc; drop 2% rpc", "--chaos")


def test_moments() -> None:
    once, often = When(2, False), When(2, True)
    assert [often.moment(number) for number in (1, 2, 3)] == [2, 4, 6]
    assert [once.moment(number) for number in (1, 2)] == [2, None]
    assert [often.num_due(now) for now in (0, 1.9, 2, 7)] == [0, 0, 1, 3]
    assert [once.num_due(now) for now in (0, 1.9, 2, 7)] == [0, 0, 1, 1]
    assert When(0, False).num_due(0.1) == 1


def test_clauses_that_a_short_job_never_met_are_known() -> None:
    chaos = Chaos.parse(
        "kill server at 2s; kill worker every 5s; torn-write at 9s; disk-full at 9s; drop 1% rpc", "--chaos"
    )
    assert chaos.not_yet(3.0) == ["kill worker every 5s", "torn-write at 9s", "disk-full at 9s for 5s"]
    assert chaos.not_yet(9.5) == []
