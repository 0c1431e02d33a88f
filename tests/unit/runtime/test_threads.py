"""How many cores a process may use, and what is chosen for torch's threads."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fleet.cores import num_cores, thread_variables
from fleet.runtime import threads
from fleet.runtime.threads import Threads


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OMP_NUM_THREADS", "FLEET_NATIVE_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def machine(root: Path, groups: str, **files: str) -> Path:
    """A folder that looks like a machine with these control groups."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "5:memory:/\n4:cpuset:/\n3:cpu,cpuacct:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "3200000 100000\n"}, 16),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "max 100000\n"}, 4),
        ("0::/of/the/machine\n", {"cpu.max": "300000 100000\n"}, 3),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 16),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "600000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 6),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "50000\n", "cpu/docker/abc/cpu.cfs_period_us": "10000\n"}, 5),
        (V1, {"unified/cpu.max": "700000 100000\n"}, 7),
        (V1, {"cpu/cpu.cfs_quota_us": "nonsense\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
    ],
)
def test_a_quota_of_either_version_counts_and_those_above_it(
    tmp_path: Path, groups: str, files: dict[str, str], expected: int
) -> None:
    root = machine(tmp_path, groups, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert num_cores(root) == expected


def test_a_system_without_control_groups_has_its_cpus(tmp_path: Path) -> None:
    assert num_cores(tmp_path) == 16


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"OMP_NUM_THREADS": "12", "FLEET_NATIVE_THREADS": "8", "OMP_WAIT_POLICY": "PASSIVE"}),
        ({"OMP_NUM_THREADS": "3"}, {"FLEET_NATIVE_THREADS": "8", "OMP_WAIT_POLICY": "PASSIVE"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_NUM_THREADS": "12", "FLEET_NATIVE_THREADS": "8"}),
        ({"GOMP_SPINCOUNT": "10"}, {"OMP_NUM_THREADS": "12", "FLEET_NATIVE_THREADS": "8"}),
    ],
)
def test_what_the_user_has_set_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert thread_variables(12) == expected


def chosen(monkeypatch: pytest.MonkeyPatch, cores: int) -> int:
    """With how many threads torch computes after a choice in a process that may use so many cores."""
    monkeypatch.setattr(threads, "num_cores", lambda: cores)
    monkeypatch.setattr(threads, "IdleTeam", NoTeam)
    choice = Threads()
    choice.choose()
    choice.close()
    return torch.get_num_threads()


class NoTeam:
    def __init__(self, path: str) -> None:
        assert path

    def close(self) -> None: ...


def test_torch_keeps_to_a_quota_unless_the_user_has_said_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(16)  # one for each CPU, as torch has it by itself
    assert chosen(monkeypatch, 4) == 4
    torch.set_num_threads(5)
    assert chosen(monkeypatch, 4) == 5
    torch.set_num_threads(2)
    assert chosen(monkeypatch, 4) == 2
    torch.set_num_threads(16)
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert chosen(monkeypatch, 4) == 16


def test_the_choice_is_logged_once_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "num_cores", lambda: 4)
    torch.set_num_threads(1)
    choice = Threads()
    with caplog.at_level(logging.INFO, "fleet"):
        choice.choose()
        choice.choose()
    choice.close()
    assert [record.getMessage() for record in caplog.records] == [
        "torch computes on 1 thread of the 4 cores that this process may use"
    ]


SPINNING = """
    import ctypes, os, sys, time
    import torch
    import fleet

    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("skip")
    torch.set_num_threads(2)
    [path] = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
    library = ctypes.CDLL(path)

    def cpu_s():
        begin = time.process_time()
        for _ in range(10):
            library.GOMP_parallel(library.omp_get_thread_num, None, 2, 0)
            time.sleep(0.03)
        return time.process_time() - begin

    cpu_s()
    before = cpu_s()
    fleet.init()
    during = cpu_s()
    fleet.shutdown()
    after = cpu_s()
    print(before, during, after)
"""


def test_threads_that_wait_sleep_although_torch_was_imported_before(tmp_path: Path) -> None:
    """A team that has nothing to do looks for work for milliseconds before it sleeps, unless there is an idle team."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SPINNING))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    if done.stderr.strip() == "skip":
        pytest.skip("needs two CPUs")
    assert done.returncode == 0, done.stderr
    before, during, after = map(float, done.stdout.split())
    assert during < before / 3, done.stdout
    assert during < after / 3, "shutdown has not ended the idle team"


def test_before_torch_is_imported_variables_settle_it() -> None:
    code = """
import os, fleet, fleet.cores
fleet.init()
assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
assert os.environ["OMP_NUM_THREADS"] == str(fleet.cores.num_cores())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_task_of_slurm_uses_the_cores_that_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    everything = num_cores(tmp_path)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert num_cores(tmp_path) == 1
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "100000")
    assert num_cores(tmp_path) == everything
