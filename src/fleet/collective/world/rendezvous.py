"""How the processes of a job find each other: one store, opened by worker 0, and a roll-call with a deadline."""

import socket
import time
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import default_pg_timeout

from fleet import env, net
from fleet.errors import DeadlineError, RoleError
from fleet.net import Endpoint
from fleet.observe.waits.waiting import Awaited, LongWait, members_awaited, told_meanwhile
from fleet.roles.base import Identity, Role

DEFAULT_TIMEOUT_S = 300.0
_RETRY_S = 0.01
_REMINDER = "check that every process was started and can reach worker 0; FLEET_INIT_TIMEOUT_S sets how long to wait"


def timeout_s() -> float:
    """How long a process waits for the others at the start."""
    return env.FLEET_INIT_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S


def open_store(who: Identity, what: str = "fleet.init()") -> dist.Store:
    """The store of this attempt at the job, for a meeting at `what`.

    Worker 0 listens on the address of the endpoint, not on every interface.
    """
    if who.rendezvous is None:
        raise RoleError(
            f"{who.source}: nothing says where the workers meet; set PADDLE_TRAINER_ENDPOINTS, "
            "or MASTER_ADDR and MASTER_PORT, or use fleetrun"
        )
    endpoint = who.rendezvous.endpoint
    is_master = who.role is Role.WORKER and who.index == 0 and not who.rendezvous.is_hosted
    listener = net.listen(_listening_endpoint(endpoint)) if is_master else None
    started = time.monotonic()
    deadline = started + timeout_s()
    if not is_master and not _is_there(who, endpoint, deadline, what):
        raise _nobody_there(endpoint, started)
    try:
        store = dist.TCPStore(
            endpoint.host,
            endpoint.port,
            who.num_workers + who.num_servers,
            is_master=is_master,
            timeout=timedelta(seconds=max(1.0, deadline - time.monotonic())),
            wait_for_workers=False,
            master_listen_fd=None if listener is None else listener.detach(),
        )
    except (dist.DistError, RuntimeError) as error:
        raise _nobody_there(endpoint, started) from error
    store.set_timeout(default_pg_timeout)  # from here on it serves the groups, whose wait is not ours to limit
    return dist.PrefixStore(f"fleet/{_attempt()}", store)


def _is_there(who: Identity, endpoint: Endpoint, deadline: float, what: str) -> bool:
    """Whether worker 0 listens before the time is up.

    The store would wait too, but a first attempt that comes too early costs it half a second, and its last one six.
    """
    with LongWait(who.name) as wait:
        while time.monotonic() < deadline:
            try:
                socket.create_connection((endpoint.host, endpoint.port), timeout=1.0).close()
            except OSError:
                time.sleep(_RETRY_S)
            else:
                return True
            if wait.is_due:
                wait.tell(Awaited(f"worker 0 to come to {what} and to listen at {endpoint}", (0,), is_limited=True))
    return False


def _nobody_there(endpoint: Endpoint, started: float) -> DeadlineError:
    waited_s = time.monotonic() - started
    return DeadlineError(f"waited {waited_s:.0f} s for worker 0 at {endpoint}; {_remedy(endpoint)}")


def _attempt() -> int:
    """How often the job was started before. torchrun's store survives a restart, and what was written there with it.

    With a launcher inside the other only the inner one counts on, so the sum grows from one attempt to the next.
    """
    return (env.FLEET_RESTART.get() or 0) + (env.TORCHELASTIC_RESTART_COUNT.get() or 0)


def _remedy(endpoint: Endpoint) -> str:
    if net.resolve(endpoint.host):
        return _REMINDER
    return f"{endpoint.host} does not resolve here; set MASTER_ADDR to an address that every process can reach"


def _listening_endpoint(endpoint: Endpoint) -> Endpoint:
    """Where to listen: the address itself if it is this machine's, else every interface.

    A name may resolve to loopback here and to something else elsewhere, and an address may be translated on the way.
    """
    if net.is_loopback(endpoint.host) or endpoint.host in net.local_addresses():
        return endpoint
    return Endpoint("0.0.0.0", endpoint.port)


def roll_call(store: dist.Store, name: str, who: Identity, everybody: Sequence[str], what: str) -> None:
    """Wait until everybody has come to `what`; the error names those who have not."""
    assert who.rendezvous is not None  # or there would be no store
    store.set(f"{name}/{who.name}", "here")
    keys = [f"{name}/{one}" for one in everybody]
    try:
        with told_meanwhile(who.name, lambda: _absent(store, name, everybody, what)):
            store.wait(keys, timedelta(seconds=timeout_s()))
    except (dist.DistError, RuntimeError) as error:
        missing = [one for one in everybody if not store.check([f"{name}/{one}"])]
        where = who.rendezvous.endpoint
        raise DeadlineError(f"waited {timeout_s():.0f} s at {where} for {', '.join(missing)}; {_REMINDER}") from error


def _absent(store: dist.Store, name: str, everybody: Sequence[str], what: str) -> Awaited | None:
    """Who has not come, asked over another connection, for this one waits; None if the store cannot say."""
    try:
        other = store.clone()  # type: ignore[attr-defined]
        missing = [one for one in everybody if not other.check([f"{name}/{one}"])]
    except (AttributeError, dist.DistError, RuntimeError):
        return None
    return members_awaited(missing, what) if missing else None
