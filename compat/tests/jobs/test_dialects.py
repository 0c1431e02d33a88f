"""Command lines of older launchers become fleetrun's."""

from __future__ import annotations

import pytest

from fleet.errors import UsageError
from fleet_paddle.jobs import dialects
from fleet_paddle.jobs.dialects import collective, with_servers


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("train.py --gpus 3", "--banner --log_dir=mylog -- train.py --gpus 3"),
        ("--selected_gpus 0,1 train.py", "--selected_gpus=0,1 --banner --log_dir=mylog -- train.py"),
        ("--gpus=0 --log_dir out -m pack.age x", "--gpus=0 --log_dir=out -m --banner -- pack.age x"),
        (
            "--cluster_node_ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.2 --started_port=6170 --print_config=False t.py",
            "--start_port=6170 --no-banner --ips=10.0.0.1,10.0.0.2 --rank=1 --log_dir=mylog -- t.py",
        ),
        ("--cluster_node_ips=127.0.0.1 --node_ip=127.0.0.1 t.py", "--banner --log_dir=mylog -- t.py"),
        ("-q t.py", "-q --log_dir=mylog -- t.py"),
        ("--help", "--help --banner --log_dir=mylog"),
    ],
)
def test_a_collective_job(given: str, words: str) -> None:
    assert collective(given.split()) == words.split()


def test_the_number_of_machines_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_NUM_TRAINERS", "3")
    assert collective(["t.py"]) == ["--banner", "--nnodes=3", "--log_dir=mylog", "--", "t.py"]
    assert collective(["--ips=a,b", "t.py"]) == ["--banner", "--ips=a,b", "--log_dir=mylog", "--", "t.py"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("t.py a", "--banner --log_dir=logs --server_num=2 --worker_num=2 -- t.py a"),
        ("--worker_num 3 --server_num 1 t.py", "--worker_num=3 --server_num=1 --banner --log_dir=logs -- t.py"),
        (
            "--cluster_node_ips=h1,h2 --server_num=1 --worker_num=2 --start_port=7000 t.py",
            "--banner --log_dir=logs --servers=h1:7000,h2:7000 --workers=h1,h1,h2,h2 -- t.py",
        ),
        (
            "--endpoints=127.0.0.1:7,127.0.0.1:8 --worker_num=1 t.py",
            "--servers=127.0.0.1:7,127.0.0.1:8 --banner --log_dir=logs --workers=127.0.0.1 -- t.py",
        ),
        ("--servers=h:1 --workers=h t.py", "--servers=h:1 --workers=h --banner --log_dir=logs -- t.py"),
    ],
)
def test_a_job_with_servers(given: str, words: str) -> None:
    assert with_servers(given.split()) == words.split()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--log_dir", "--log_dir needs a value"),
        ("--node_ip=9.9.9.9 t.py", "--node_ip 9.9.9.9 is not one of --cluster_node_ips 127.0.0.1"),
        ("--use_paddlecloud=True t.py", "--use_paddlecloud: name the machines"),
        (
            "--worker_num=1",
            "for example: python -m paddle.distributed.launch_ps --worker_num 2 --server_num 2 train.py",
        ),
        ("--cluster_node_ips=a,b --worker_num=no t.py", "--worker_num must be a whole number >= 1, got no"),
    ],
)
def test_a_mistake_is_one_line(given: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=message):
        with_servers(given.split())
    with pytest.raises(SystemExit, match="2"):
        dialects.launch_ps(given.split())
    assert message in capfd.readouterr().err


def test_the_help_speaks_the_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    for call, options in ((dialects.launch, ()), (dialects.launch_ps, ("--endpoints",))):
        with pytest.raises(SystemExit, match="0"):
            call(["--help"])
        shown = capsys.readouterr().out
        assert f"Usage: python -m paddle.distributed.{call.__name__} [OPTIONS]" in shown
        assert f"  python -m paddle.distributed.{call.__name__} --" in shown
        assert all(option in shown for option in ("--cluster_node_ips", "--node_ip", "--started_port", *options))
        assert "fleetrun --" not in shown
