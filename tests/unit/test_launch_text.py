"""What fleetrun prints: the banner's box, the end of a log, how a process ended."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fleet.launch.banner import argument_block, variable_table
from fleet.launch.follow import Follower, tail
from fleet.launch.options import Options
from fleet.launch.report import how_it_ended


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
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100_000)) + b"\xff broken \r 10%\r 100%\n\n")
    assert tail(log, 3) == ["line 99998", "line 99999", " 100%"]


def test_a_log_is_followed_across_restarts_until_the_terminal_is_gone(tmp_path: Path) -> None:
    log, out = tmp_path / "log", io.BytesIO()
    follower = Follower(log, out)
    follower.pump()
    for text in (b"one\n", b"two"):
        with open(log, "ab") as file:
            file.write(text)
        follower.pump()
    assert out.getvalue() == b"one\ntwo"
    out.close()
    log.write_bytes(b"one\ntwo\nthree\n")
    follower.pump()


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "exit code 3"), (-9, "signal SIGKILL (9), exit code 137"), (-11, "signal SIGSEGV (11), exit code 139")],
)
def test_how_a_process_ended(status: int, text: str) -> None:
    assert how_it_ended(status) == text
