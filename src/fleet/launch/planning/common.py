"""What the processes of both kinds of jobs are told."""

from __future__ import annotations

from collections.abc import Mapping

from fleet import env, net
from fleet.cores import thread_variables
from fleet.launch.planning.machine import Machine


def common_variables(machine: Machine, num_local: int, network: Mapping[str, str]) -> dict[str, str]:
    """What every process gets unless the user has set it: the network interface, a share of the cores, large pages.

    A CPU worker makes and drops large gradients at every step; in small pages the kernel clears each anew.
    """
    variables = dict(network)
    if not machine.has_gpus and env.THP_MEM_ALLOC_ENABLE.text(machine.variables) is None:
        variables[env.THP_MEM_ALLOC_ENABLE.name] = "1"
    return variables | thread_variables(max(1, machine.num_cores // num_local), machine.variables)


def join(endpoints: tuple[net.Endpoint, ...]) -> str:
    """A comma list."""
    return ",".join(map(str, endpoints))
