"""The variables of MPI launchers, and what happens where MPI itself is missing."""

from __future__ import annotations

import sys

import pytest

from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint
from fleet.roles import MPISymetricRoleMaker, Rendezvous, Role, discover
from fleet.roles.mpi_env import is_from_srun, read

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
PMI = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
MASTER = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
FAMILIES = pytest.mark.parametrize("family", [OPEN_MPI, PMI], ids=["open-mpi", "pmi"])


@FAMILIES
def test_everything_mpirun_sets(family: dict[str, str]) -> None:
    who = read({**family, **MASTER})
    assert who is not None
    assert (who.role, who.index, who.num_workers) == (Role.WORKER, 5, 8)
    assert (who.local_rank, who.num_local_workers, who.node_index, who.num_nodes) == (1, 4, 1, 2)
    assert who.rendezvous == Rendezvous(Endpoint("10.0.0.1", 29500))


@FAMILIES
def test_reading_alone_never_starts_mpi(family: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # makes its import fail
    who = read(family)
    assert who is not None
    assert who.rendezvous is None


@FAMILIES
def test_partly_set(family: dict[str, str]) -> None:
    for name in family:
        with pytest.raises(VariableError, match="is not set") as caught:
            read({key: value for key, value in family.items() if key != name})
        assert caught.value.name == name


@FAMILIES
def test_a_single_process_needs_nothing_else(family: dict[str, str]) -> None:
    index, count = list(family)[:2]
    who = read({index: "0", count: "1"})
    assert who is not None
    assert (who.num_workers, who.rendezvous) == (1, None)


@pytest.mark.parametrize(("half", "missing"), [("MASTER_ADDR", "MASTER_PORT"), ("MASTER_PORT", "MASTER_ADDR")])
def test_half_a_meeting(half: str, missing: str) -> None:
    with pytest.raises(VariableError, match=half) as caught:
        read({**OPEN_MPI, half: MASTER[half]})
    assert caught.value.name == missing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"OMPI_COMM_WORLD_RANK": "8"}, "index 8"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "4"}, "local rank 4"),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "0"}, "OMPI_COMM_WORLD_LOCAL_SIZE must be >= 1"),
        ({"OMPI_COMM_WORLD_SIZE": "many"}, "OMPI_COMM_WORLD_SIZE must be a whole number"),
    ],
)
def test_nonsense(change: dict[str, str], message: str) -> None:
    with pytest.raises(RoleError, match=message):
        read({**OPEN_MPI, **change})


def test_nothing_set() -> None:
    assert read({}) is None


def test_pmi_of_srun_is_told_from_mpirun() -> None:
    assert is_from_srun({"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert not is_from_srun(PMI)
    assert not is_from_srun({"PMI_RANK": "0", **OPEN_MPI})
    assert not is_from_srun({})


def test_without_mpi4py_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # makes its import fail
    with pytest.raises(RoleError, match=r"MASTER_ADDR and MASTER_PORT .*torch-fleet\[mpi\].*openmpi") as caught:
        discover(environ=OPEN_MPI)
    assert "\n" not in str(caught.value)
    with pytest.raises(RoleError, match=r"torch-fleet\[mpi\].*openmpi"):
        MPISymetricRoleMaker().generate_role()
