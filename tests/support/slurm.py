"""A real Slurm on this machine: munge, slurmctld and several slurmd, from Debian's package slurm-wlm."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from support.jobs import clean_environ
from support.processes import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare")
LIMIT_S = 120.0
CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort={port}
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
JobRequeue=1
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4000 State=UNKNOWN\n"


def why_not() -> str | None:
    """The reason why there can be no Slurm here, or None."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs {missing[0]}, of Debian's package slurm-wlm"
    return "needs to be root" if os.geteuid() else None


class Slurm:
    """Its commands, in a folder where jobs run."""

    def __init__(self, config: Path, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        """The slurmd of each node."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {**clean_environ(), "SLURM_CONF": str(config), "OMP_NUM_THREADS": "1", "PATH": path}

    def run(self, *words: object) -> str:
        """What a command says."""
        command = [str(word) for word in words]
        told = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert told.returncode == 0, f"{command}: {told.stderr}"
        return told.stdout

    def submit(self, script: str) -> int:
        """The number of the job that this script is now."""
        (self.folder / "job.sh").write_text(script)
        return int(self.run("sbatch", "--parsable", "job.sh"))

    def go_on(self, job: int) -> None:
        """Have a job that is requeued start now; it would rest two minutes."""
        self.wait_for(job, "PENDING")
        # The end of its former life would otherwise be taken for that of the next.
        config = self.environ["SLURM_CONF"]
        wait_until(lambda: not _daemons_of_steps(config), LIMIT_S, "its former life to end")
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")

    def kill_node(self, name: str) -> None:
        """End everything that runs on a node, its slurmd first, as if its machine were gone."""
        self.daemons[name].kill()
        for pid in _processes_of(name, self.environ["SLURM_CONF"]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def state(self, job: int) -> str:
        """That of its first component."""
        found = re.search(r"JobState=(\w+)", self.run("scontrol", "show", "job", job))
        assert found is not None
        return found[1]

    def wait_for(self, job: int, *states: str) -> str:
        """The state it has come to."""
        wait_until(lambda: self.state(job) in states, LIMIT_S, f"job {job} to be {' or '.join(states)}")
        return self.state(job)


def _processes_of(node: str, config: str) -> list[int]:
    """Tasks of a node of one cluster, all that they have started, and the daemons of its steps."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "environ").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={config}".encode()} <= set(words):
            found.append(int(path.name))
            if parent > 1 and (Path("/proc") / str(parent) / "comm").read_text().startswith("slurmstepd"):
                found.insert(0, parent)
    return found


def _daemons_of_steps(config: str) -> list[int]:
    """The slurmstepd of one cluster."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "comm").read_text().startswith("slurmstepd"):
                words = (path / "environ").read_bytes().split(b"\0")
                found += [int(path.name)] if f"SLURM_CONF={config}".encode() in words else []
    return found


def _free_ports(number: int) -> list[int]:
    """Ports that nobody has just now; Slurm cannot be handed a socket."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def slurm(folder: Path, num_nodes: int) -> Iterator[Slurm]:
    """A cluster whose nodes are called n1, n2, ...; these names lead to this machine inside of it only."""
    host, ports = socket.gethostname().partition(".")[0], _free_ports(num_nodes + 1)
    names = [f"n{number}" for number in range(1, num_nodes + 1)]
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as place,
        ExitStack() as stack,
    ):  # a socket's name is short
        own = Path(place)
        own.chmod(0o755)
        (own / "state").mkdir()
        (own / "key").write_bytes(os.urandom(1024))
        (own / "key").chmod(0o400)
        (own / "hosts").write_text(f"127.0.0.1 localhost {' '.join(names)}\n{Path('/etc/hosts').read_text()}")
        config = own / "slurm.conf"
        nodes = "".join(
            NODE.format(name=name, host=host, port=port) for name, port in zip(names, ports[1:], strict=True)
        )
        partitions = "PartitionName=all Nodes=ALL Default=YES State=UP\n"
        config.write_text(CONFIG.format(host=host, folder=own, port=ports[0]) + nodes + partitions)
        found = Slurm(config, folder)

        def start(*words: str) -> subprocess.Popen[bytes]:
            inside = f'mount --bind {own / "hosts"} /etc/hosts && exec "$@"'
            with (own / f"{words[-1].rpartition('/')[2]}.log").open("wb") as log:
                command = ["unshare", "--mount", "sh", "-c", inside, "sh", *words]
                process = subprocess.Popen(command, env=found.environ, stdout=log, stderr=log)
            stack.callback(_end, process)
            return process

        files = {
            "key-file": "key",
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "log-file": "munged",
            "seed-file": "seed",
        }
        start("munged", "--force", "--foreground", *(f"--{option}={own / name}" for option, name in files.items()))
        wait_until((own / "munge.socket").exists, LIMIT_S, "munged")
        start("slurmctld", "-D")
        for name in names:
            found.daemons[name] = start("slurmd", "-D", "-N", name)
        wait_until(lambda: _idle(found) == num_nodes, LIMIT_S, "the nodes")
        try:
            yield found
        finally:
            subprocess.run(["scancel", "--user=root"], env=found.environ, timeout=30, check=False)
            wait_until(lambda: not found.run("squeue", "--noheader"), LIMIT_S, "jobs to end")


def _idle(found: Slurm) -> int:
    told = subprocess.run(
        ["sinfo", "--noheader", "--format=%D %T"],
        env=found.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return sum(int(line.split()[0]) for line in told.stdout.splitlines() if line.endswith(" idle"))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
