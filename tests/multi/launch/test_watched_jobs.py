"""Real jobs that are watched: their figures are those of what they did, and a process that dies is seen to."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from fleet_tools.watching.picture import read_events, read_history, read_picture
from support.jobs import RunningJob, fleetrun, script
from support.processes import wait_until
from support.serving.watched import TRAIN, figure, port_of, seen_of, texts, trained

ARGUMENTS = ("--server_num", 2, "--worker_num", 2)


def test_prometheus_sees_what_a_job_did(tmp_path: Path) -> None:
    parser: Any = pytest.importorskip("prometheus_client.parser")
    train = script(tmp_path, TRAIN)
    arguments = (*ARGUMENTS, "--metrics_port", 0, train)
    with RunningJob(arguments, tmp_path, environ={"FLEET_METRICS_TOKEN": ""}, warm=True) as job:
        url = port_of(tmp_path, "figures for Prometheus")
        wait_until(lambda: trained(tmp_path), 120, "the steps")
        found: dict[tuple[str, ...], float] = {}

        def is_all_there() -> bool:
            with urlopen(url, timeout=30) as answer:
                text = answer.read().decode()
            found.clear()
            for family in parser.text_string_to_metric_families(text):
                found.update({(one.name, *sorted(one.labels.values())): one.value for one in family.samples})
            steps = [found.get(("fleet_worker_steps_total", index, "worker")) for index in "01"]
            pushes = [found.get(("fleet_server_pushes_total", index, "server")) for index in "01"]
            return steps == [10, 10] and pushes == [20, 20]

        wait_until(is_all_there, 60, "figures of all steps")
        assert found["fleet_worker_samples_total", "0", "worker"] == 200
        assert found["fleet_worker_ids_total", "0", "worker"] == 200
        assert found["fleet_worker_keys_total", "0", "worker"] == 200
        for part in ("wait", "apply", "answer"):
            assert 0 < found["fleet_server_part_seconds_total", *sorted(("0", part, "server"))] < 120, part
        for why in ("token", "memory"):
            assert found["fleet_server_refused_calls_total", *sorted(("0", "server", why))] == 0
        assert found["fleet_worker_reported", "1", "step", "worker"] == 9
        rows = [found["fleet_table_rows", *sorted((index, "0")), "server"] for index in "01"]
        assert sum(rows) == 29
        assert found["fleet_server_staleness_steps_count", "0", "server"] == 20
        assert found["fleet_server_version", "0", "server"] == 10
        assert found["fleet_process_up", "1", "worker"] == 1
        for part in ("route", "pull", "push", "wait", "forward", "backward", "optimizer"):
            assert found["fleet_worker_part_seconds_total", "0", part, "worker"] > 0, part
        parts = [value for name, value in found.items() if name[:2] == ("fleet_worker_part_seconds_total", "0")]
        assert 0 < time.time() - found["fleet_worker_last_step_timestamp_seconds", "0", "worker"] < 120
        assert sum(parts) < 120
        (tmp_path / "enough").touch()
        assert job.finish().code == 0
    log = tmp_path / "log"
    picture = read_picture(log)
    assert picture.is_over
    assert picture.problems == []
    assert picture.machines[0]["code"] == 0
    assert {seen.state for seen in picture.processes} <= {"ended", "stopped"}
    assert figure(log, "worker 0", "fleet_worker_steps_total") == 10, "the last figures are there after the end"
    assert read_history(log)[-1]["p"]["worker 0"]["fleet_worker_steps_total"] == 10
    told = [event["text"] for event in read_events(log)]
    assert any(text.startswith("starting 2 servers and 2 workers") for text in told)
    assert any("in saved" in text for text in told), "the checkpoint"
    assert told[-1].startswith("finished in ")


def test_a_worker_that_is_killed_is_seen_dead_and_back(tmp_path: Path) -> None:
    train, log = script(tmp_path, TRAIN), tmp_path / "log"
    with RunningJob((*ARGUMENTS, "--durable", "kept", train), tmp_path, warm=True) as job:
        wait_until(lambda: trained(tmp_path), 120, "the steps")
        wait_until(lambda: figure(log, "worker 1", "fleet_worker_steps_total") == 10, 60, "its figures")
        os.kill(int(seen_of(log)["worker 1"].about["pid"]), signal.SIGKILL)
        wait_until(lambda: seen_of(log)["worker 1"].about["life"] == 1, 60, "its next life")
        wait_until(lambda: any("worker 1 is back after" in text for text in texts(log)), 60, "its return")
        assert any("worker 1 was killed by SIGKILL; started again in its place (life 2)" in text for text in texts(log))
        (tmp_path / "enough").touch()
        assert job.finish().code == 0


def test_the_figures_of_a_job_that_failed_say_who_died(tmp_path: Path) -> None:
    train = script(tmp_path, "import os, sys\nsys.exit(3 if os.environ['PADDLE_TRAINER_ID'] == '1' else 0)")
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path)
    assert result.code == 3
    picture = read_picture(tmp_path / "log")
    assert picture.machines[0]["code"] == 3
    assert {seen.name: seen.state for seen in picture.processes}["worker 1"] == "dead"
    failures = [event["text"] for event in read_events(tmp_path / "log") if event["event"] == "failure"]
    assert failures[0].startswith("worker 1 failed: exit code 3")


def test_without_metrics_nothing_is_written(tmp_path: Path) -> None:
    train = script(tmp_path, "print('here')")
    environ = {"FLEET_METRICS": "0"}
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", train, cwd=tmp_path, environ=environ)
    assert result.code == 0, result.err
    assert not (tmp_path / "log" / "observe").exists()


def test_an_earlier_job_leaves_nothing_behind(tmp_path: Path) -> None:
    train = script(tmp_path, "print('here')")
    for number in (3, 2):
        assert fleetrun("--nproc_per_node", number, "--device", "cpu", train, cwd=tmp_path).code == 0
    assert [seen.name for seen in read_picture(tmp_path / "log").processes] == ["worker 0", "worker 1"]
    history = [json.dumps(line) for line in read_history(tmp_path / "log")]
    assert not any("worker 2" in line for line in history)


def places(log: Path) -> list[str]:
    return [seen.where for seen in seen_of(log).values() if seen.role == "worker" and seen.where]


def test_a_worker_that_is_late_says_where_it_is(tmp_path: Path) -> None:
    text = TRAIN.replace("time.sleep(0.01)", "time.sleep(600)")
    line = 1 + [one.strip() for one in text.splitlines()].index("time.sleep(600)")
    with RunningJob((*ARGUMENTS, script(tmp_path, text)), tmp_path, environ={"FLEET_WAIT_NOTICE_S": "1"}, warm=True):
        wait_until(lambda: trained(tmp_path), 120, "the steps")
        wait_until(lambda: len(places(tmp_path / "log")) == 2, 60, "both to say where they are")
        assert places(tmp_path / "log") == [f"train.py:{line} in <module>"] * 2
