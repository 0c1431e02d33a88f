"""A server that dies in the middle of a job is the cause, whatever its workers say about it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, RunningJob, fleetrun, script
from support.processes import exists, wait_until

pytestmark = pytest.mark.timeout(300)

# Workers hold a connection to each server, and raise when one breaks, as workers that train would.
TRAIN = """
    import os, selectors, signal, socket, time
    from fleet.jobfiles.ending import note_the_end
    note_the_end()

    def tell(name):
        with open(name + ".part", "w") as file:
            file.write(f"{os.getpid()}\\n")
        os.rename(name + ".part", name)

    def connect(endpoint):
        host, _, port = endpoint.rpartition(":")
        while True:
            try:
                return socket.create_connection((host, int(port)))
            except ConnectionRefusedError:
                time.sleep(0.01)

    if os.environ["TRAINING_ROLE"] == "PSERVER":
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
        listener.listen()
        workers = [listener.accept()[0] for _ in range(2)]
        tell(f"server.{os.environ['PADDLE_PSERVER_ID']}")
        signal.pause()

    waiting = selectors.DefaultSelector()
    for endpoint in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
        waiting.register(connect(endpoint), selectors.EVENT_READ, endpoint)
    tell(f"worker.{os.environ['PADDLE_TRAINER_ID']}")
    for key, _ in waiting.select():
        raise ConnectionError(f"lost server {key.data}")
"""


@pytest.mark.parametrize("is_launcher_busy", [False, True])
def test_kill_9_of_a_server_is_named_before_the_workers_that_lost_it(tmp_path: Path, is_launcher_busy: bool) -> None:
    train = script(tmp_path, TRAIN)
    names = ("server.0", "server.1", "worker.0", "worker.1")
    with RunningJob(["--server_num", 2, "--worker_num", 2, train], tmp_path) as job:
        pids = {name: int(job.read(name)) for name in names}
        if is_launcher_busy:
            job.send(signal.SIGSTOP)
        os.kill(pids["server.1"], signal.SIGKILL)
        if is_launcher_busy:
            for index in range(2):
                note = tmp_path / f"log/workerlog.{index}.note.{pids[f'worker.{index}']}"
                wait_until(note.exists, LIMIT_S, "the worker to note its end")
            job.send(signal.SIGCONT)
        result = job.finish()
    assert result.code == 137, result.err
    report = result.err[result.err.index(" failed: ") - len("server 1") :]
    assert report.startswith(f"server 1 failed: signal SIGKILL (9), exit code 137 (pid {pids['server.1']}, ")
    assert not any(exists(pid) for pid in pids.values())


def test_the_report_names_a_server_that_had_ended_by_itself(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, pathlib, time
        if os.environ["TRAINING_ROLE"] == "TRAINER":
            while not os.path.exists("server"):
                time.sleep(0.01)
            state = pathlib.Path("/proc", open("server").read(), "stat")
            while ") Z " not in state.read_text():  # it has ended, and is the launcher's to look at
                time.sleep(0.01)
            raise SystemExit(3)
        pathlib.Path("server.part").write_text(str(os.getpid()))
        os.rename("server.part", "server")
        """,
    )
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path)
    assert result.code == 3
    assert "worker 0 failed: exit code 3" in result.err
    assert "ended by itself before that: server 0" in result.err
