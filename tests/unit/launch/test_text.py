"""What fleetrun prints: the banner's box, the end of a log, how a process ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.job.endings import how_it_ended
from fleet.launch.arguments.options import Options
from fleet.launch.planning.banner import argument_block, variable_table
from fleet.launch.processes.logs import open_log, tail
from fleet.launch.run import follow
from fleet.launch.run.follow import LogFollower
from fleet.launch.run.output import write_within


def test_the_box_is_the_one_of_the_document() -> None:
    table = variable_table({"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "x" * 41 + ":6071"})
    assert table.splitlines() == [
        "    +=======================================================================================+",
        "    |                        Distributed Envs                      Value                    |",
        "    +---------------------------------------------------------------------------------------+",
        "    |                     PADDLE_TRAINERS_NUM                        2                      |",
        "    |                PADDLE_TRAINER_ENDPOINTS  ... xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx:6071|",
        "    +=======================================================================================+",
    ]


def test_arguments_are_sorted_and_shown_as_given() -> None:
    lines = argument_block(Options("train.py", ("--lr", "1"), gpus=(0, 1))).splitlines()
    assert lines[0] == "-----------  Configuration Arguments -----------"
    assert lines[-1] == "-" * 48
    assert lines[1:-1] == sorted(lines[1:-1])
    for line in ("gpus: 0,1", "ips: 127.0.0.1", "server_num: None", "servers:", "training_script: train.py"):
        assert line in lines
    assert "training_script_args: ['--lr', '1']" in lines


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log, 3) == []
    log.write_bytes(b"")
    assert tail(log, 3) == []
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100_000)) + b"\r 10%\r\x1b[2K 100%\x1b[?25h\n\n")
    assert tail(log, 3) == ["line 99998", "line 99999", " 100%"]


def read_all(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := os.read(descriptor, size - len(data))):
        data += chunk
    return data


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def never() -> bool:
    return False


def test_a_log_is_followed_while_it_grows_and_to_its_end(tmp_path: Path, pipe: tuple[int, int]) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    follower = LogFollower(log, pipe[1])
    assert read_all(pipe[0], 4) == b"one\n"
    with open(log, "ab") as file:
        file.write(b"two\n")
    assert read_all(pipe[0], 4) == b"two\n"
    log.write_bytes(b"3\n")  # cut, as logrotate does, and written to again
    assert read_all(pipe[0], 2) == b"3\n"
    with open(log, "ab") as file:
        file.write(b"four")
    assert follower.finish(None, never)
    assert read_all(pipe[0], 4) == b"four"
    assert follower.is_mid_line


def test_a_terminal_that_is_gone_ends_the_following(tmp_path: Path, pipe: tuple[int, int]) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100)
    os.close(pipe[0])
    LogFollower(log, pipe[1]).finish(None, never)


@pytest.mark.parametrize("how", ["impatient", "signalled"])
def test_a_terminal_that_takes_nothing_is_not_waited_for_for_ever(
    tmp_path: Path, pipe: tuple[int, int], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SIGNALLED_PATIENCE_S", 0.05)
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_000_000)  # more than a pipe holds
    follower = LogFollower(log, pipe[1])
    assert not follower.finish(0.05 if how == "impatient" else None, lambda: how == "signalled")
    os.close(pipe[0])  # lets its thread end


def test_a_message_is_dropped_rather_than_waited_for(pipe: tuple[int, int]) -> None:
    assert write_within(pipe[1], b"hello", 0.0)
    assert not write_within(pipe[1], b"x" * 1_000_000, 0.05)
    assert read_all(pipe[0], 5) == b"hello"
    os.close(pipe[0])
    assert not write_within(pipe[1], b"hello", 0.05)


def test_a_log_belongs_to_one_job_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "workerlog.0"
    with ExitStack() as first, ExitStack() as second:
        os.write(open_log(path, first), b"mine")
        with pytest.raises(UsageError, match=r"workerlog\.0 belongs to another job that is still running"):
            open_log(path, second)
        assert path.read_bytes() == b"mine"
    with ExitStack() as third:
        open_log(path, third)
        assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "exit code 3"), (-9, "signal SIGKILL (9), exit code 137"), (-11, "signal SIGSEGV (11), exit code 139")],
)
def test_how_a_process_ended(status: int, text: str) -> None:
    assert how_it_ended(status) == text
