"""`fleetrun --durable`: a process that dies is started again in its place, and the rest of the job does not notice."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from fleet.net import Hold
from support.jobs import LIMIT_S, RunningJob, fleetrun, script
from support.processes import exists, wait_until

pytestmark = pytest.mark.timeout(300)

# Each process says which life it has, and goes on until the test says that the work is done. Without torch, so that the
# tests are quick.
WORK = """
    import os, socket, subprocess, sys, time
    from fleet.jobfiles.serving import note_serving
    is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
    index = os.environ["PADDLE_PSERVER_ID" if is_server else "PADDLE_TRAINER_ID"]
    name, life = f"{'server' if is_server else 'worker'}.{index}", os.environ["FLEET_LIFE"]

    def tell(file, *words):
        with open(f"{file}.part", "w") as part:
            part.write(" ".join(map(str, words)) + "\\n")
        os.rename(f"{file}.part", file)

    if is_server:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
        listener.listen()
        folder = os.path.join(os.environ["FLEET_DURABLE"], f"server-{index}")
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, "journal-1.log"), "w").close()
        note_serving(os.environ["PADDLE_PORT"])
        print("life", life, flush=True)
    else:
        print(name, "lives", life, end="" if life == "0" else None)
    # In a session of its own, where the end of its parent's group does not reach it.
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    port = os.environ.get("PADDLE_PORT", 0)
    tell(f"{name}.{life}", os.getpid(), child.pid, port, os.environ["FLEET_RESTART"])
    while not os.path.exists("done"):
        if os.path.exists(f"stop.{name}.{life}"):
            sys.exit()
        time.sleep(0.01)
    child.kill()
    child.wait()
    if not is_server:
        sys.exit()
    os.unlink(os.path.join(folder, "journal-1.log"))
"""

JOB = ["--server_num", 2, "--worker_num", 2, "--durable", "kept"]


def numbers(job: RunningJob, name: str) -> list[int]:
    return [int(word) for word in job.read(name).split()]


def finish(job: RunningJob) -> None:
    (job.cwd / "done").touch()


def test_a_killed_process_is_started_again_in_its_place(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with RunningJob([*JOB, train], tmp_path) as job:
        names = ("server.0", "server.1", "worker.0", "worker.1")
        first = {name: numbers(job, f"{name}.0") for name in names}
        os.kill(first["server.1"][0], signal.SIGKILL)
        second = {"server.1": numbers(job, "server.1.1")}
        os.kill(first["worker.0"][0], signal.SIGSEGV)
        second["worker.0"] = numbers(job, "worker.0.1")
        os.kill(second["server.1"][0], signal.SIGKILL)
        third = numbers(job, "server.1.2")
        left = [first[name][1] for name in ("server.1", "worker.0")]
        wait_until(lambda: not any(map(exists, left)), LIMIT_S, "the end of what the first lives had left")
        assert all(exists(first[name][0]) for name in ("server.0", "worker.1"))
        finish(job)
        result = job.finish()
    assert result.code == 0, result.err
    assert third[2] == second["server.1"][2] == first["server.1"][2] != first["server.0"][2]
    assert {one[3] for one in (*first.values(), *second.values(), third)} == {0}  # FLEET_RESTART
    assert not list(tmp_path.glob("server.0.1")) + list(tmp_path.glob("worker.1.1"))
    assert result.out.splitlines() == ["worker.0 lives 0", "worker.0 lives 1"]
    said = [line.partition("fleetrun: ")[2] for line in result.err.splitlines()]
    assert said[1:4] == [
        "warning: server 1 was killed by SIGKILL; started again in its place (life 2)",
        "warning: worker 0 was killed by SIGSEGV; started again in its place (life 2)",
        "warning: server 1 was killed by SIGKILL; started again in its place (life 3)",
    ]
    assert re.fullmatch(
        r"warning: 3 restarts: server 1 back after \d\.\d s and \d\.\d s, worker 0 back after \d+\.\d s", said[4]
    ), said
    assert said[5].startswith("finished in ")
    assert (tmp_path / "log/serverlog.1").read_text() == "life 0\nlife 1\nlife 2\n"
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["server-0", "server-1"]  # no lock stays


def test_kill_9_of_the_launcher_leaves_nothing_of_a_second_life(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with RunningJob([*JOB, train], tmp_path) as job:
        first = [numbers(job, f"{name}.0") for name in ("server.0", "server.1", "worker.0", "worker.1")]
        os.kill(first[0][0], signal.SIGKILL)
        second = numbers(job, "server.0.1")
        job.send(signal.SIGKILL)
        job.finish()
    pids = [pid for one in (*first, second) for pid in one[:2]]
    wait_until(lambda: not any(map(exists, pids)), LIMIT_S, "all processes to end")
    finish(job)
    assert fleetrun(*JOB, train, cwd=tmp_path).code == 0  # the folder is free again


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_job_says_that_its_folder_stays(tmp_path: Path, number: signal.Signals) -> None:
    train = script(tmp_path, WORK)
    with RunningJob([*JOB, train], tmp_path) as job:
        numbers(job, "server.0.0")
        os.kill(numbers(job, "worker.1.0")[0], signal.SIGKILL)
        numbers(job, "worker.1.1")
        job.send(number)
        result = job.finish()
    assert result.code == 128 + number
    assert result.err.count("started again") == 1
    assert result.err.rstrip().endswith("kept keeps what the servers know; the same command goes on from there")


def test_a_process_that_dies_again_and_again_ends_the_job(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal
        print("life", os.environ["FLEET_LIFE"])
        if os.environ["TRAINING_ROLE"] == "PSERVER":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
        """,
    )
    result = fleetrun(
        "--server_num", 1, "--worker_num", 1, "--durable", "kept", "--max_restart", 2, train, cwd=tmp_path
    )
    assert result.code == 137
    assert "server 0 failed: signal SIGKILL (9), exit code 137" in result.err
    assert "the last line of log/serverlog.0:\n  | life 2\n" in result.err
    assert "server 0 is not started again: it has died 3 times within 10 minutes (--max_restart 2)" in result.err
    assert "stopped because of it: worker 0" in result.err
    assert "2 restarts: server 0 2 times, not back" in result.err


def test_a_server_that_refuses_its_journal_ends_the_job_at_once(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal, sys
        if os.environ["TRAINING_ROLE"] == "PSERVER":
            print("server: kept/server-0/journal-1.log is damaged at byte 17")
            sys.exit(2)
        signal.pause()
        """,
    )
    result = fleetrun("--server_num", 1, "--worker_num", 1, "--durable", "kept", train, cwd=tmp_path)
    assert result.code == 2
    assert "server 0 failed: exit code 2" in result.err
    assert "  | server: kept/server-0/journal-1.log is damaged at byte 17\n" in result.err
    assert "restart" not in result.err.replace("not started again", "")


def test_a_worker_with_a_mistake_is_tried_three_times(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, signal
        if os.environ["TRAINING_ROLE"] == "TRAINER" and os.environ["PADDLE_TRAINER_ID"] == "1":
            raise ValueError(f"of life {os.environ['FLEET_LIFE']}")
        signal.pause()
        """,
    )
    result = fleetrun(*JOB, train, cwd=tmp_path)
    assert result.code == 1
    assert result.seconds > 3.0  # it paused for one second and for two
    assert result.err.count("worker 1 ended with exit code 1 (see log/workerlog.1); started again in its place") == 2
    assert "  | ValueError: of life 2\n" in result.err
    assert "ValueError: of life 1" not in result.err
    assert (
        "worker 1 is not started again: 3 times in a row it has ended with an error within 30 s of its start"
        in result.err
    )


def test_a_server_that_somebody_else_has_stopped_is_started_again(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with RunningJob([*JOB, train], tmp_path) as job:
        numbers(job, "server.1.0")
        (tmp_path / "stop.server.1.0").touch()
        numbers(job, "server.1.1")
        finish(job)
        result = job.finish()
    assert result.code == 0, result.err
    assert (
        "server 1 was stopped, though its workers have not finished (see log/serverlog.1); started again" in result.err
    )


def test_machines_start_their_own_again_and_do_not_hear_of_others(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with Hold.any_port() as free:
        point = str(free.endpoint)
    options = ["--master", point, "--nnodes", 2, "--server_num", 1, "--worker_num", 1, "--no-tls"]
    with RunningJob([*options, "--rank", 0, "--durable", "kept", "--log_dir", "log0", train], tmp_path) as here:
        with RunningJob([*options, "--rank", 1, "--durable", "kept", "--log_dir", "log1", train], tmp_path) as there:
            os.kill(numbers(there, "server.1.0")[0], signal.SIGKILL)
            os.kill(numbers(here, "worker.0.0")[0], signal.SIGKILL)
            numbers(there, "server.1.1")
            numbers(here, "worker.0.1")
            finish(here)
            results = here.finish(), there.finish()
    assert [one.code for one in results] == [0, 0], results
    assert "server 1 was killed" in results[1].err
    assert "server 1" not in results[0].err
    assert "worker 0 was killed" in results[0].err
    assert "worker 0" not in results[1].err


def test_a_machine_without_it_is_refused(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with Hold.any_port() as free:
        point = str(free.endpoint)
    options = ["--master", point, "--nnodes", 2, "--server_num", 1, "--worker_num", 1, "--no-tls"]
    durable = ["--durable", "kept", "--max_restart", 0]
    with RunningJob([*options, *durable, train], tmp_path) as here, RunningJob([*options, train], tmp_path) as there:
        jobs = here, there
        wait_until(lambda: any(job.ends_within(0.01) for job in jobs), LIMIT_S, "one of them to be refused")
        for job in jobs:
            job.send(signal.SIGTERM)
        said = "".join(job.finish().err for job in jobs)
    terms = "--nnodes 2, --max_restart 0, parameter servers(, --durable)?, --no-tls"
    assert re.search(f"{terms}, the meeting point with {terms}; make them equal", said), said
    assert not list(tmp_path.glob("log*"))


def test_a_folder_belongs_to_one_job(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    with RunningJob([*JOB, train], tmp_path) as job:
        numbers(job, "server.0.0")
        result = fleetrun(*JOB, "--log_dir", "other", train, cwd=tmp_path)
        finish(job)
        assert job.finish().code == 0
    assert result.code == 2
    assert result.err.endswith(
        "fleetrun: --durable kept: server 0 of another job that is still running keeps its own there; choose another "
        "folder\n"
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--nproc_per_node", 2, "--durable", "kept"],
            "--durable kept: a collective job has no servers that could keep a journal; leave it out (or unset "
            "FLEET_DURABLE), and use fleet.Checkpoint with --max_restart",
        ),
        (
            ["--server_num", 1, "--worker_num", 1, "--journal", "os"],
            "--journal os goes with --durable DIR, where the journal is kept; add it",
        ),
        (["--server_num", 1, "--worker_num", 1, "--durable", ""], "--durable needs a folder, such as --durable kept"),
        (
            ["--server_num", 1, "--worker_num", 1, "--durable", "train.py/kept"],
            "--durable train.py/kept: {cwd}/train.py is not a folder; choose another",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(tmp_path: Path, options: list[object], line: str) -> None:
    script(tmp_path, WORK)
    result = fleetrun(*options, "train.py", cwd=tmp_path)
    assert (result.code, result.err) == (2, f"fleetrun: {line.format(cwd=tmp_path)}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_a_journal_that_is_off_is_refused(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    result = fleetrun(*JOB, train, cwd=tmp_path, environ={"FLEET_JOURNAL": "off"})
    assert result.code == 2
    assert "FLEET_JOURNAL=off: a durable job has a journal; unset it, or leave out --durable" in result.err


def test_a_time_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    train = script(tmp_path, WORK)
    result = fleetrun(*JOB, train, cwd=tmp_path, environ={"FLEET_RECOVERY_TIMEOUT_S": "soon"})
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("fleetrun: FLEET_RECOVERY_TIMEOUT_S must be ")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_job_that_goes_on_from_an_earlier_run_says_so(tmp_path: Path) -> None:
    train = script(tmp_path, "print('started')")
    line = "going on with what servers of an earlier run kept in kept; to begin anew, delete it"
    assert line not in fleetrun(*JOB, train, cwd=tmp_path).err
    (tmp_path / "kept" / "server-1" / "journal-00000000000000000001.log").write_bytes(b"")
    assert line in fleetrun(*JOB, train, cwd=tmp_path).err
    result = fleetrun(*JOB, "--server_num", 1, "--log_dir", "other", train, cwd=tmp_path)
    assert (result.code, result.err) == (
        2,
        "fleetrun: --durable kept: the job there has 2 servers, not 1; go on with --server_num 2, or choose another "
        "folder (a running job: fleetrun reshard)\n",
    )
    assert not (tmp_path / "other").exists()


def test_the_variables_that_processes_find(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import os, subprocess, sys
        names = ("FLEET_DURABLE", "FLEET_JOURNAL", "FLEET_RECOVERY_TIMEOUT_S", "FLEET_LIFE")
        print(*(os.environ.get(name) for name in names), flush=True)
        if len(sys.argv) == 1 and os.environ["TRAINING_ROLE"] == "TRAINER":
            inner = ["--nproc_per_node", "1", "--device", "cpu", "--quiet", "--log_dir", "inner", "train.py", "inner"]
            subprocess.run([sys.executable, "-m", "fleet.launch", *inner], check=True)
        """,
    )
    environ = {"FLEET_RECOVERY_TIMEOUT_S": "7"}
    options = ["--server_num", 1, "--worker_num", 1, "--durable", "a/b", "--journal", "always"]
    result = fleetrun(*options, train, cwd=tmp_path, environ=environ)
    assert result.code == 0, result.err
    own, inner = result.out.splitlines()
    assert own == f"{tmp_path}/a/b ALWAYS 7 0"
    assert inner == "None None 7 0"  # of a job that is not durable
    environ = {"FLEET_DURABLE": "c", "FLEET_JOURNAL": "interval"}
    result = fleetrun(*options[:4], train, "x", cwd=tmp_path, environ=environ)
    assert result.out == f"{tmp_path}/c INTERVAL 300 0\n"


# The rows and dense parameters that this leaves do not depend on what is killed on the way.
TRAIN = """
    import os, signal, time
    import torch
    from torch import nn
    import fleet
    from fleet.ps.worker.calling.changes import WorkerChanges

    def tell(file):
        with open(f"{file}.part", "w") as part:
            part.write(f"{os.getpid()}\\n")
        os.rename(f"{file}.part", file)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = fleet.nn.Embedding(4, table="ads", rule=fleet.rules.Adagrad(lr=0.1))
            self.out = nn.Linear(4, 1)

        def forward(self, ids):
            return self.out(self.emb(ids).mean(1)).squeeze(1)

    def train(me):
        for step in range(30):
            generator = torch.Generator().manual_seed(1000 * step + me)
            ids = torch.randint(0, 500, (16, 3), generator=generator)
            (model(ids) - torch.rand(16, generator=generator)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 10 and me == 0:
                tell("half")
            while step == 15 and not os.path.exists("go"):
                time.sleep(0.01)
        fleet.save_persistables("model")

    def die_between_two_servers(changes, leave=WorkerChanges.leave, **how):
        while not os.path.exists("worker.0"):  # so that this worker is the last that server 0 waits for
            time.sleep(0.01)
        del changes._client.transports[1:]
        leave(changes, **how)
        os.kill(os.getpid(), signal.SIGKILL)

    is_durable, is_first = "FLEET_DURABLE" in os.environ, os.environ["FLEET_LIFE"] == "0"
    fleet.init()
    if fleet.is_server():
        tell(f"server.{fleet.server_index()}.{os.environ['FLEET_LIFE']}")
        fleet.init_server()
        fleet.run_server()
        raise SystemExit
    me = fleet.worker_index()
    torch.manual_seed(0)
    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    fleet.init_worker()
    if is_first:
        train(me)
        if me == 1 and is_durable:
            WorkerChanges.leave = die_between_two_servers
    fleet.stop_worker()
    if me == 0:
        tell("worker.0")
"""


def test_tables_are_those_of_a_run_in_which_nothing_died(tmp_path: Path) -> None:
    for name in ("alone", "killed"):
        (tmp_path / name).mkdir()
    (tmp_path / "alone/go").touch()
    assert fleetrun(*JOB[:4], script(tmp_path / "alone", TRAIN), cwd=tmp_path / "alone", warm=True).code == 0
    with RunningJob([*JOB, script(tmp_path / "killed", TRAIN)], tmp_path / "killed", warm=True) as job:
        job.read("half")
        os.kill(numbers(job, "server.1.0")[0], signal.SIGKILL)
        (job.cwd / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err
    assert "server 1 was killed by SIGKILL; started again in its place (life 2)" in result.err
    assert "worker 1 was killed by SIGKILL; started again in its place (life 2)" in result.err
    assert "2 restarts: server 1 back after" in result.err
    assert not [path for path in job.cwd.glob("kept/**/*") if path.suffix in (".log", ".snap")], "the job is over"
    alone, killed = (saved(tmp_path / name / "model") for name in ("alone", "killed"))
    assert len({file for file, _ in alone}) == 4
    assert alone == killed


def saved(folder: Path) -> dict[tuple[str, str], tuple[str, tuple[int, ...], bytes]]:
    """Every tensor of a checkpoint, bit for bit, without what else its files say, such as which save they are of."""
    return {
        (path.name, name): (str(array.dtype), array.shape, array.tobytes())
        for path in folder.glob("*.safetensors")
        for name, array in load_file(path).items()
    }
