"""How long a worker waits, for a server and for the other workers, and a server for its workers, before it gives up."""

from typing import Final

from fleet import env
from fleet.job.description import DEFAULT_RECOVERY_S
from fleet.observe.waits.waiting import served_timeout_s

START_TIMEOUT_S: Final = 300.0
RPC_TIMEOUT_S: Final = 60.0
STEP_GRACE_S: Final = 60.0
LONGEST_WAIT_S: Final = 3600.0


def start_timeout_s() -> float:
    """Seconds a server may take to make its tables, or to load them from a checkpoint, before it answers a worker."""
    return max(env.FLEET_INIT_TIMEOUT_S.get() or START_TIMEOUT_S, rpc_timeout_s())


def rpc_timeout_s() -> float:
    """Seconds a worker keeps trying to reach a server; VariableError when FLEET_RPC_TIMEOUT_S is malformed.

    Servers of a durable job come back, and take up what they had: they are waited for longer.
    """
    if is_durable():
        return env.FLEET_RECOVERY_TIMEOUT_S.get() or DEFAULT_RECOVERY_S
    return env.FLEET_RPC_TIMEOUT_S.get() or RPC_TIMEOUT_S


def rpc_timeout_name() -> str:
    """The variable that sets `rpc_timeout_s`."""
    return (env.FLEET_RECOVERY_TIMEOUT_S if is_durable() else env.FLEET_RPC_TIMEOUT_S).name


def is_durable() -> bool:
    """Whether this process belongs to a job whose servers outlive their processes."""
    return env.FLEET_DURABLE.text() is not None


def is_elastic() -> bool:
    """Whether this process belongs to a job whose workers come and go."""
    return env.FLEET_ELASTIC.get() == "1"


def step_timeout_s() -> float:
    """Seconds a synchronous step waits for the other workers; VariableError when FLEET_STEP_TIMEOUT_S is malformed.

    By default it is long enough for the watch to end the job first: its report says more.
    """
    return env.FLEET_STEP_TIMEOUT_S.get() or served_timeout_s() + STEP_GRACE_S


def longest_wait_s() -> float:
    """Seconds a server lets a call wait for other workers, at the most: an hour, or two time limits of a step."""
    return max(LONGEST_WAIT_S, 2 * step_timeout_s())
