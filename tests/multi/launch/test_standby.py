"""What launchers do where servers have copies and machines burn; the processes here only say what real ones would.

How servers, copies and workers follow is in tests/fault.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.launch.standby.keeper import VIEW
from support.hosts import Network, switched_network, why_not
from support.jobs import script
from support.machines import Machines
from support.processes import wait_until

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(200),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]
LIMIT_S = 60.0
PATIENCE = {"FLEET_MACHINE_TIMEOUT_S": "2"}

STAND_IN = """
    import os, signal, sys, time
    from pathlib import Path
    from fleet.jobfiles.copy_notes import note_copy
    from fleet.jobfiles.joining import note_joined, note_stopped
    from fleet.jobfiles.serving import note_serving
    from fleet.jobfiles.terms import own_terms

    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
    own = f"{os.environ['POD_IP']}:{os.environ['PADDLE_PORT']}" if is_server else ""
    copy_of, end, known = os.environ.get("FLEET_COPY_OF"), Path(os.environ["TEST_END"]), None
    if is_server:
        note_serving(own)
    print("pid", os.getpid(), "life", os.environ["FLEET_LIFE"], flush=True)
    while not told and (is_server or not end.exists()):
        term = own_terms().newest()
        if copy_of is not None and term != known and own not in term.servers:
            note_copy(int(copy_of), term.number, is_whole=True, lsn=1, lag=0)
        known = term
        time.sleep(0.02)
"""
# A fleetrun whose copies are the same script.
LAUNCHER = """
import sys
from fleet.launch import cli
from fleet.launch.meet import link, reach, succession
from fleet.launch.planning import standby_job
link.SUSPECT_S = reach._LEAST_S = succession._MORE_S = succession._CONNECT_S = 1.0
standby_job.COPY_COMMAND = (sys.executable, "../stand_in.py")
cli.main()
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with switched_network(3) as network:
        yield network


class Job(Machines):
    """Three machines with a server and a worker each, until `end`."""

    def __init__(
        self,
        stack: ExitStack,
        network: Network,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        more: Sequence[object] = (),
    ) -> None:
        self._end = folder / "end"
        stand_in = script(folder, STAND_IN, "stand_in.py")
        monkeypatch.setattr("support.jobs.FLEETRUN", (sys.executable, "-c", LAUNCHER))
        arguments = ["--standby", "sync", "--server_num", 1, "--worker_num", 1, *more, stand_in]
        super().__init__(stack, network, folder, arguments, {"TEST_END": str(self._end), **PATIENCE})
        self.wait_for_terms(1)
        for machine in self.left:
            self.log(machine, f"workerlog.{machine}")

    def log(self, machine: int, name: str) -> str:
        """What a process has written, once it has begun."""
        path = self.folders[machine] / "log" / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), LIMIT_S, f"{path}")
        return path.read_text()

    def end(self) -> list[str]:
        """Let the workers finish; what the launchers that are left have said."""
        self._end.touch()
        results = self.finish()
        assert [result.code for result in results] == [0] * len(results), results
        for machine in self.left:
            assert not (self.folders[machine] / "kept" / "terms").exists()
        return [result.err for result in results]

    def host(self, machine: int) -> str:
        return self.network.hosts[machine].address


def test_a_copy_that_dies_is_made_anew_and_a_lost_machine_goes_on_elsewhere(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        job = Job(stack, network, tmp_path, monkeypatch)
        begun = job.wait_for_terms(1)
        assert begun[0] == begun[1] == begun[2]
        assert begun[0].number == 1
        assert [copy.split(":")[0] for copy in begun[0].copies] == [job.host(1), job.host(2), job.host(0)]
        os.kill(int(job.log(0, "serverlog.2.copy").split()[1]), signal.SIGKILL)
        without, filled = job.wait_for_terms(2)[0], job.wait_for_terms(3)[0]
        assert without.copies[2] in ("", filled.copies[2])
        assert filled.copies[2].startswith(job.host(0))
        assert filled.copies[2] != begun[0].copies[2]
        job.burn(2)
        first = job.wait_for_terms(4)[0]
        assert first.servers[:2] == begun[0].servers[:2]
        assert first.servers[2] == filled.copies[2]
        assert job.log(0, "workerlog.2").endswith("life 1\n")
        whole = job.wait_for_terms(6)[0]  # two copies were filled anew
        assert [copy.split(":")[0] for copy in whole.copies] == [job.host(1), job.host(0), job.host(1)]
        assert set(whole.copies[1:]).isdisjoint(begun[0].copies)
        job.burn(1)
        last = job.wait_for_terms(7)[0]
        assert {server.split(":")[0] for server in last.servers} == {job.host(0)}
        assert set(last.copies) == {""}
        (said,) = job.end()
    gone = f"machine 2 ({job.host(2)}) is gone: its fleetrun ended: server 2 goes on on machine 0 ({job.host(0)}), "
    assert f"{gone}worker 2 is started on machine 0 ({job.host(0)})" in said
    assert "server 0 has no copy: no other machine is left" in said
    assert "copy of server 2 was killed by SIGKILL (see log/serverlog.2.copy)" in said
    assert f"server 2 has no copy: a new one is filled on machine 0 ({job.host(0)})" in said


def test_the_place_of_the_meeting_point_is_taken(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        job = Job(stack, network, tmp_path, monkeypatch)
        job.burn(0)
        terms = job.wait_for_terms(VIEW)
        assert terms[0].servers[0].startswith(job.host(1))
        job.wait_for_terms(VIEW + 2)
        job.log(1, "workerlog.0")
        said = job.end()
    for text in said:
        assert f"machine 1 ({job.host(1)}) is the meeting point, server 0 goes on on machine 1" in text
        assert "server 2 has a copy on machine 1" in text


def test_a_machine_that_lost_two_meeting_points_stops_and_says_why(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        job = Job(stack, network, tmp_path, monkeypatch)
        job.burn(0)
        job.wait_for_terms(VIEW + 2)
        job.burn(1)
        (result,) = job.finish()
    assert result.code == 1
    assert "the machine that is left cannot tell a dead one from a cut cable" in result.err


def test_a_machine_that_is_cut_off_is_lost_and_stops(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        job = Job(stack, network, tmp_path, monkeypatch)
        begun = job.wait_for_terms(1)[0]
        with network.without(2, "silence"):
            job.left.remove(2)
            term = job.wait_for_terms(2)[0]
            alone = job.jobs[2].finish()
        assert term.servers[2].startswith(job.host(0))
        newest = job.terms(2).newest()
        assert newest == begun, "nobody it can reach has decided anything"
        assert alone.code == 1
        assert "1 of 3 machines are left, and half or fewer do not go on" in alone.err
        said = job.end()
    assert f"machine 2 ({job.host(2)}) is gone: it could not be reached for 2 s (FLEET_MACHINE_TIMEOUT_S)" in said[0]
