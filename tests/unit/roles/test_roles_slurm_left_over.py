"""A job submitted from inside an srun inherits its SLURM_STEP_* variables; its script is no task of that srun.

The values are those of a real Slurm 22.05, and the longer forms it writes for bigger jobs.
"""

from __future__ import annotations

import pytest

from fleet.errors import RoleError, VariableError
from fleet.roles import discover
from fleet.roles.slurm import is_task, read

# What slurmd sets afresh for the script of every sbatch job.
SCRIPT = {
    "SLURM_JOB_ID": "8",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "0",
    "SLURMD_NODENAME": "runsc",
}


def step(num_tasks: int, nodes: str, tasks_per_node: str) -> dict[str, str]:
    """What srun sets for all tasks alike."""
    return {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(num_tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks_per_node,
    }


ONE_NODE = step(2, "runsc", "2")
TWO_NODES = step(3, "runsc,vm", "2,1")
ONE_EACH = step(2, "n[1-2]", "1(x2)")
TWO_EACH = step(4, "n[1-2]", "2(x2)")


def task(index: int, local: int, node: int, ids: str, name: str) -> dict[str, str]:
    """What slurmd sets for one task."""
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": str(index),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_GTIDS": ids,
        "SLURMD_NODENAME": name,
    }


@pytest.mark.parametrize(
    "environ",
    [
        {**SCRIPT, **ONE_NODE},
        {**SCRIPT, **TWO_NODES},
        {**SCRIPT, **TWO_EACH, "SLURMD_NODENAME": "n1"},
        {**SCRIPT, **ONE_EACH, "SLURMD_NODENAME": "n2"},
        {**SCRIPT, **ONE_EACH, "SLURMD_NODENAME": "n2", "SLURM_GTIDS": ""},
        {**SCRIPT, **ONE_NODE, "SLURMD_NODENAME": ""},
    ],
    ids=["one-node", "two-nodes", "two-each", "on-another-node", "name-alone", "ids-alone"],
)
def test_a_job_script_with_the_variables_of_another_srun_is_alone(environ: dict[str, str]) -> None:
    assert not is_task(environ)
    assert read(environ) is None
    assert discover(environ=environ).worker_num() == 1


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (ONE_NODE | task(1, 1, 0, "0,1", "runsc"), (1, 1, 2, 0)),
        (TWO_NODES | task(1, 1, 0, "0,1", "runsc"), (1, 1, 2, 0)),
        (TWO_NODES | task(2, 0, 1, "2", "vm"), (2, 0, 1, 1)),
        (TWO_NODES | task(2, 1, 0, "0,2", "runsc"), (2, 1, 2, 0)),
        (TWO_NODES | task(1, 0, 1, "1", "vm"), (1, 0, 1, 1)),
        (TWO_EACH | task(3, 1, 1, "2,3", "n2"), (3, 1, 2, 1)),
        (ONE_EACH | task(1, 0, 1, "1", "n2"), (1, 0, 1, 1)),
        (ONE_NODE | task(1, 1, 0, "", ""), (1, 1, 2, 0)),
    ],
    ids=["one-node", "two-nodes", "second-node", "cyclic", "cyclic-second", "two-each", "one-each", "unset"],
)
def test_a_task_of_the_srun_it_describes(environ: dict[str, str], place: tuple[int, ...]) -> None:
    who = read(environ)
    assert who is not None
    assert (who.index, who.local_rank, who.num_local_workers, who.node_index) == place


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"SLURM_NODEID": "x"}, "SLURM_NODEID"),
        ({"SLURM_NODEID": "2"}, "SLURM_NODEID"),
        ({"SLURM_STEP_NODELIST": "n[1-"}, "SLURM_STEP_NODELIST"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(y2)"}, "SLURM_STEP_TASKS_PER_NODE"),
        ({"SLURM_STEP_NUM_TASKS": "many"}, "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_malformed_values_are_an_error_and_not_left_over(change: dict[str, str], name: str) -> None:
    environ = {**TWO_EACH, **task(3, 1, 1, "2,3", "n2"), **change}
    assert is_task(environ)
    with pytest.raises((RoleError, VariableError), match=name):
        read(environ)
