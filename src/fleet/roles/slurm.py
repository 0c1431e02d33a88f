"""Roles from Slurm: each task of an `srun` is a worker.

A process of an sbatch script outside srun is not a task: SLURM_PROCID is there, SLURM_STEP_NUM_TASKS is not. A job that
was submitted from inside an srun inherits that one's SLURM_STEP_*, left over; what slurmd sets afresh gives them away.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from fleet import env
from fleet.env import Environ, EnvVariable
from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint
from fleet.roles.base import Identity, Rendezvous, Role
from fleet.roles.seat import Seat, master_endpoint

T = TypeVar("T")
SOURCE = "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)"
FIRST_PORT, NUM_PORTS = 20000, 10000  # below the range from which kernels hand out ports

_MOST = 100_000
"""A list longer than any cluster is a mistake, and would fill the memory."""
_NAME = re.compile(r"[^\[\],\s]*(?:\[[^\[\],]+(?:,[^\[\],]+)*\][^\[\],\s]*)*")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_TASKS = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


def expand_hosts(text: str) -> list[str]:
    """Every host in order; ValueError says where the text is malformed.

    >>> expand_hosts("a[01-03,7],b-[1,3]-x,c")
    ['a01', 'a02', 'a03', 'a7', 'b-1-x', 'b-3-x', 'c']
    """
    hosts: list[str] = []
    for name in _names(text.strip()):
        pieces = [[plain] if plain else list(_numbers(brackets)) for brackets, plain in _PIECE.findall(name)]
        hosts += itertools.islice(map("".join, itertools.product(*pieces)), _MOST + 1)
        if len(hosts) > _MOST:
            raise ValueError(f"{text!r} names more than {_MOST} hosts")
    return hosts


def _names(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    position = 0
    while True:
        match = _NAME.match(text, position)
        end = match.end() if match else position
        if end == position or (end < len(text) and text[end] != ","):
            raise ValueError(f"{text!r} is malformed at position {end}; write it like node[01-04],gpu7")
        yield text[position:end]
        if end == len(text):
            return
        position = end + 1


def _numbers(brackets: str) -> Iterator[str]:
    """`01-03,7` as 01, 02, 03, 7: a range keeps the width of its first number."""
    for part in brackets.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"[{brackets}] holds {part!r}; write numbers and ranges like [01-03,7]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= _MOST:
            raise ValueError(f"[{brackets}] holds the range {part!r}, which runs backwards or too far")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def expand_tasks(text: str) -> list[int]:
    """Tasks on each machine.

    >>> expand_tasks("4(x2),3")
    [4, 4, 3]
    """
    counts: list[int] = []
    for part in text.strip().split(","):
        match = _TASKS.fullmatch(part.strip())
        if match is None or int(match[2] or 1) > _MOST:
            raise ValueError(f"{text!r} holds {part!r}; write counts like 4(x2),3")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def is_task(environ: Environ | None = None) -> bool:
    """Whether srun, and not merely an sbatch script, started this process or one around it."""
    return env.SLURM_STEP_NUM_TASKS.text(environ) is not None and not _is_left_over(environ)


def read(environ: Environ | None = None) -> Identity | None:
    """None outside an srun; a variable that srun sets and that is missing is an error."""
    if not is_task(environ):
        return None
    count = env.SLURM_STEP_NUM_TASKS.require("srun sets it", environ)
    index = env.SLURM_PROCID.require(f"SLURM_STEP_NUM_TASKS={count}, so srun should have set it", environ)
    if count == 1:
        return Identity(role=Role.WORKER, index=index, num_workers=1, source=SOURCE)
    seat = _seat(count, environ)
    who = Identity(
        role=Role.WORKER,
        index=index,
        num_workers=count,
        source=SOURCE,
        rendezvous=Rendezvous(_meeting(environ)),
    )
    if index == 0 and seat.node_index != 0 and env.MASTER_ADDR.text(environ) is None:
        raise RoleError(
            f"SLURM_PROCID=0 runs on machine {seat.node_index} of SLURM_STEP_NODELIST, but the workers would meet on "
            "the first, machine 0; set MASTER_ADDR to the machine of task 0, or change srun's --distribution"
        )
    return seat.given_to(who)


def _is_left_over(environ: Environ | None) -> bool:
    """Whether SLURM_STEP_* describe another srun than the one that started this process, if any did."""
    ids, name = env.SLURM_GTIDS.text(environ), env.SLURMD_NODENAME.text(environ)
    num_tasks = _of_this_node(env.SLURM_STEP_TASKS_PER_NODE, expand_tasks, environ)
    host = _of_this_node(env.SLURM_STEP_NODELIST, expand_hosts, environ)
    has_other_tasks = ids is not None and num_tasks is not None and len(ids.split(",")) != num_tasks
    has_other_name = name is not None and host is not None and name != host
    return has_other_tasks or has_other_name


def _of_this_node(variable: EnvVariable[str], expand: Callable[[str], list[T]], environ: Environ | None) -> T | None:
    """The entry of this machine in a list; None where it cannot be told, which `read` will complain about."""
    try:
        return expand(variable.require("", environ))[env.SLURM_NODEID.require("", environ)]
    except (ValueError, IndexError):
        return None


def _seat(count: int, environ: Environ | None) -> Seat:
    why = f"SLURM_STEP_NUM_TASKS={count}, so srun should have set it"
    variable = env.SLURM_STEP_TASKS_PER_NODE
    text = variable.require(why, environ)
    try:
        tasks = expand_tasks(text)
    except ValueError as error:
        raise VariableError(variable.name, f"cannot be read: {error}") from None
    if sum(tasks) != count:
        raise RoleError(f"{variable.name}={text} adds up to {sum(tasks)} tasks, but SLURM_STEP_NUM_TASKS={count}")
    node = env.SLURM_NODEID.require(why, environ)
    num_nodes = env.SLURM_STEP_NUM_NODES.get(environ) or len(tasks)
    if num_nodes != len(tasks) or node >= num_nodes:
        raise RoleError(
            f"{variable.name}={text} counts {len(tasks)} machines, which does not fit SLURM_NODEID={node} "
            f"and SLURM_STEP_NUM_NODES={num_nodes}"
        )
    return Seat(env.SLURM_LOCALID.require(why, environ), tasks[node], node, num_nodes)


def _meeting(environ: Environ | None) -> Endpoint:
    host = env.MASTER_ADDR.get(environ) or _first_host(environ)
    port = env.MASTER_PORT.get(environ)
    return master_endpoint(host, derived_port(environ) if port is None else port)


def _first_host(environ: Environ | None) -> str:
    """Task 0 runs on the first machine of the list, unless `--distribution` says otherwise."""
    variable = env.SLURM_STEP_NODELIST
    text = variable.require("it says where the workers meet; set MASTER_ADDR instead if srun did not set it", environ)
    try:
        return expand_hosts(text)[0]
    except ValueError as error:
        raise VariableError(variable.name, f"cannot be read: {error}; or set MASTER_ADDR") from None


def derived_port(environ: Environ | None) -> int:
    """A port every task computes alike: neighbouring jobs, and the steps of one job, get different ones."""
    why = "the port where the workers meet is derived from it; or set MASTER_PORT"
    job, step = env.SLURM_JOB_ID.require(why, environ), env.SLURM_STEP_ID.require(why, environ)
    return FIRST_PORT + (job * 97 + step) % NUM_PORTS
