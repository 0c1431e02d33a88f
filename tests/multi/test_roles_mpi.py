"""Roles under a real mpirun."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.errors import RoleError
from fleet.net import is_loopback, local_addresses
from fleet.roles.mpi_world import MpiWorld
from support.jobs import LIMIT_S

BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(MPIRUN is None, reason="mpirun is neither beside python nor on PATH"),
    pytest.mark.timeout(300),
]

SYMMETRIC = """
import json, pathlib, socket, sys
from fleet import net
from fleet.roles import MPISymetricRoleMaker, mpi_world

maker = MPISymetricRoleMaker()
maker.generate_role()
before = maker.identity
maker.generate_role()
world = mpi_world.world()
mine = None
if maker.is_server():
    mine = maker.identity.server_endpoints[maker.server_index()]
elif maker.is_first_worker():
    mine = maker.identity.rendezvous.endpoint
is_held = is_usable = None
if mine is not None:
    with socket.socket() as stranger:
        try:
            stranger.bind((mine.host, mine.port))
            is_held = False
        except OSError:
            is_held = True
    with net.listen(mine):
        is_usable = True
report = {
    "rank": world.rank,
    "is_server": maker.is_server(),
    "is_worker": maker.is_worker(),
    "index": maker.worker_index(),
    "counts": [maker.worker_num(), maker.server_num()],
    "servers": maker.get_pserver_endpoints(),
    "meeting": str(maker.identity.rendezvous.endpoint),
    "local": [maker.identity.local_rank, maker.identity.num_local_workers, maker.identity.num_nodes],
    "is_same": maker.identity is before,
    "is_held": is_held,
    "is_usable": is_usable,
}
world.exchange("")  # nobody leaves, and frees a port, before everybody has looked
maker.close()
maker.close()
pathlib.Path(sys.argv[1], f"{world.rank}.json").write_text(json.dumps(report))
"""

DISCOVER = """
import json, pathlib, sys
from fleet.roles import discover

maker = discover()
who = maker.identity
report = {
    "index": who.index,
    "count": who.num_workers,
    "meeting": str(who.rendezvous.endpoint),
    "local": [who.local_rank, who.num_local_workers, who.node_index, who.num_nodes],
    "has_mpi": "mpi4py" in sys.modules,
}
maker.close()
pathlib.Path(sys.argv[1], f"{who.index}.json").write_text(json.dumps(report))
"""


class Mpirun:
    """Runs a script under mpirun in a folder of its own, and sees that nothing stays behind."""

    def __init__(self, folder: Path) -> None:
        self.reports = folder / "reports"
        self.reports.mkdir()
        self.script = folder / "script.py"
        # Open MPI keeps sockets and session files there; a short path, because a socket's path is limited.
        self.temporary = folder / "t"
        self.temporary.mkdir()

    def __call__(self, num: int, script: str, *options: str) -> subprocess.CompletedProcess[str]:
        self.script.write_text(script)
        source = Path(__file__).parents[2] / "src"
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.temporary),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(source),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        command = [
            str(MPIRUN),
            "-np",
            str(num),
            "--oversubscribe",
            *options,
            sys.executable,
            str(self.script),
        ]
        with subprocess.Popen(
            [*command, str(self.reports)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.reports.iterdir())]

    def left_behind(self) -> list[str]:
        """Files and folders, and processes that carry our TMPDIR: mpirun's helpers inherit it."""
        processes = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TMPDIR") == str(self.temporary):
                    processes.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return processes + [str(path) for path in self.temporary.rglob("*")]


@pytest.fixture
def mpirun(tmp_path: Path) -> Mpirun:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    return Mpirun(tmp_path)


def test_symmetric_roles(mpirun: Mpirun) -> None:
    done = mpirun(4, SYMMETRIC)
    assert done.returncode == 0, done.stderr
    ranks = mpirun.read()
    assert [rank["is_server"] for rank in ranks] == [True, False, True, False]
    assert [rank["is_worker"] for rank in ranks] == [False, True, False, True]
    assert [rank["index"] for rank in ranks] == [0, 0, 1, 1]
    assert all(rank["counts"] == [2, 2] and rank["is_same"] for rank in ranks)
    servers = ranks[0]["servers"]
    assert len(set(servers)) == 2
    assert all(server.startswith("127.0.0.1:") for server in servers)
    assert all(rank["servers"] == servers and rank["meeting"] == ranks[0]["meeting"] for rank in ranks)
    assert ranks[0]["meeting"] not in servers
    assert [rank["is_held"] for rank in ranks] == [True, True, True, None]
    assert [rank["is_usable"] for rank in ranks] == [True, True, True, None]
    assert [rank["local"] for rank in ranks if rank["is_worker"]] == [[0, 2, 1], [1, 2, 1]]
    assert mpirun.left_behind() == []


def test_odd_number_of_processes_is_refused(mpirun: Mpirun) -> None:
    done = mpirun(3, SYMMETRIC)
    assert done.returncode != 0
    assert "even number of processes, got 3; start it with mpirun -np 4" in done.stderr
    assert mpirun.read() == []
    assert mpirun.left_behind() == []


def test_discover_meets_by_mpi(mpirun: Mpirun) -> None:
    done = mpirun(2, DISCOVER)
    assert done.returncode == 0, done.stderr
    ranks = mpirun.read()
    assert [(rank["index"], rank["count"]) for rank in ranks] == [(0, 2), (1, 2)]
    assert len({rank["meeting"] for rank in ranks}) == 1
    assert ranks[0]["meeting"].startswith("127.0.0.1:")
    assert [rank["local"] for rank in ranks] == [[0, 2, 0, 1], [1, 2, 0, 1]]
    assert all(rank["has_mpi"] for rank in ranks)
    assert mpirun.left_behind() == []


def test_discover_does_not_start_mpi_when_told_where_to_meet(mpirun: Mpirun) -> None:
    done = mpirun(2, DISCOVER, "-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29511")
    assert done.returncode == 0, done.stderr
    ranks = mpirun.read()
    assert {rank["meeting"] for rank in ranks} == {"127.0.0.1:29511"}
    assert not any(rank["has_mpi"] for rank in ranks)
    assert mpirun.left_behind() == []


def test_ranks_on_two_machines_hold_a_port_others_can_reach() -> None:
    """The one thing here that one machine cannot show: the other rank's answer is made up."""
    if all(is_loopback(address) for address in local_addresses()):
        pytest.skip("this machine has no network besides loopback")
    world = MpiWorld(0, 2, lambda text: [text, "10.0.0.2:6170"], ["node-1", "node-2"])
    hold, endpoints = world.hold_ports(is_mine=True)
    assert hold is not None
    with hold:
        assert endpoints[0] == hold.endpoint
        assert not is_loopback(hold.endpoint.host)
        assert str(endpoints[1]) == "10.0.0.2:6170"


def test_a_rank_without_a_port_stops_all_ranks() -> None:
    world = MpiWorld(0, 2, lambda text: [text, "!no address"], ["node-1", "node-1"])
    with pytest.raises(RoleError, match="MPI rank 1 on node-1 found no port: no address"):
        world.hold_ports(is_mine=True)
