"""Who decides on how many threads the native core works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet import _native, env
from fleet.errors import VariableError
from fleet.launch.arguments.options import Options
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import make_plan
from fleet.net import Endpoint
from fleet.ps.job import native_threads
from fleet.ps.job.native_threads import use_native_threads


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = _native.num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name in ("FLEET_NATIVE_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    yield
    _native.set_threads(before)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 6),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "2", "FLEET_NATIVE_THREADS": "3"}, 3),
        ({"FLEET_NATIVE_THREADS": "1000"}, 256),
    ],
)
def test_the_variable_that_is_nearest_decides(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: int
) -> None:
    _native.set_threads(7)
    monkeypatch.setattr(native_threads, "num_cores", lambda: 6)  # a container's quota
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    use_native_threads()
    assert _native.num_threads() == expected


def test_no_threads_at_all_are_refused() -> None:
    with pytest.raises(VariableError, match="FLEET_NATIVE_THREADS must be a whole number >= 1, got '0'"):
        env.FLEET_NATIVE_THREADS.get({"FLEET_NATIVE_THREADS": "0"})


@pytest.mark.parametrize(
    ("num_cores", "given", "expected"), [(16, None, "4"), (2, None, "1"), (80, None, "8"), (16, "2", None)]
)
def test_fleetrun_divides_the_cores_unless_told(num_cores: int, given: str | None, expected: str | None) -> None:
    ports = tuple(Endpoint("127.0.0.1", port) for port in range(6170, 6174))
    layout = JobLayout(ports[:2], ports[2:], (0, 1), (0, 1), None)
    machine = Machine(num_cores, variables={} if given is None else {"FLEET_NATIVE_THREADS": given})
    plan = make_plan(Options("train.py", server_num=2, worker_num=2), machine, layout, {})
    assert {one.variables.get("FLEET_NATIVE_THREADS") for one in plan.processes} == {expected}
    assert {one.variables.get("OMP_WAIT_POLICY") for one in plan.processes} == {"PASSIVE"}
