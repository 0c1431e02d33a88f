"""The facade: a `Fleet` holds role, strategy and runtime; the functions of `fleet` are methods of one instance."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from fleet.errors import NotReadyError, RoleError, UsageTypeError
from fleet.observe.ending import note_the_end
from fleet.roles import Identity, Role, RoleMaker, discover
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from fleet.collective.util import Util

    util: Util
    device: torch.device


class Fleet:
    """A process's view of its job. `fleet.init()` and its siblings act on one shared instance; tests make their own."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._role_maker: RoleMaker | None = None
        self._strategy: DistributedStrategy | None = None
        self._is_collective = False
        self._device: torch.device | None = None
        self._group: dist.ProcessGroup | None = None
        self._util: Util | None = None

    def init(
        self,
        role_maker: RoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
    ) -> Fleet:
        """Learn who this process is and, in a collective job, join the other workers.

        Without a role maker the environment is asked (fleetrun, torchrun, Slurm, MPI); if it says nothing, this is a
        job of one worker. With `is_collective=True` (or a collective role maker) `torch.distributed` is ready
        afterwards; otherwise nothing is opened yet. May be called again with the same outcome; what is left out stays
        as it was.
        """
        if role_maker is not None and not isinstance(role_maker, RoleMaker):
            raise UsageTypeError(f"role_maker must be a RoleMaker, got {type(role_maker).__name__}")
        if not isinstance(is_collective, bool):
            raise UsageTypeError(f"is_collective must be True or False, got {is_collective!r}")
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise UsageTypeError(f"strategy must be a DistributedStrategy, got {type(strategy).__name__}")
        strategy = self._strategy if strategy is None else strategy
        if strategy is not None:
            strategy.require_supported()
        maker = role_maker or self._role_maker or discover(is_collective)
        self._refuse_another_role(maker.identity)
        note_the_end()
        is_collective = is_collective or maker.is_collective or self._is_collective
        if is_collective:
            if maker.identity.role is Role.SERVER:
                raise RoleError(
                    f"{maker.identity.source}: a collective job has no servers; leave out is_collective=True"
                )
            from fleet.collective.group import start_process_group

            self._device, made = start_process_group(maker.identity)
            self._group = self._group if made is None else made
        self._role_maker, self._strategy, self._is_collective = maker, strategy, is_collective
        # Threads of a process group that is still there when the interpreter goes can abort the process.
        atexit.unregister(self.shutdown)
        atexit.register(self.shutdown)
        note_the_end()  # again: the last handler to be registered is the first to run
        return self

    def _refuse_another_role(self, identity: Identity) -> None:
        if self._role_maker is not None and self._role_maker.identity != identity:
            raise RoleError(
                f"fleet.init() was called before as {self._role_maker.to_string()}; "
                "call fleet.shutdown() before changing the role"
            )

    def shutdown(self) -> None:
        """Leave the process group if `init` made it, and forget the role. Done by itself when the script ends."""
        if self._util is not None:
            self._util.close()
        if self._group is not None:
            from fleet.collective.group import stop_process_group

            stop_process_group(self._group)
        if self._role_maker is not None:
            self._role_maker.close()
        self._forget()

    @property
    def role(self) -> RoleMaker:
        if self._role_maker is None:
            raise NotReadyError("fleet is not initialised; call fleet.init() first")
        return self._role_maker

    def _identity(self) -> Identity:
        return self.role.identity

    @property
    def util(self) -> Util:
        """Collective calls for scripts: barrier, all_reduce, all_gather, get_file_shard."""
        if self._util is None:
            from fleet.collective.util import Util

            self._util = Util(self._identity())
        return self._util

    @property
    def device(self) -> torch.device:
        """The device of this worker in a collective job."""
        if self._device is None:
            if self._role_maker is None:
                raise NotReadyError("fleet is not initialised; call fleet.init(is_collective=True) first")
            raise NotReadyError(
                "fleet.device belongs to collective jobs: those that call fleet.init(is_collective=True)"
            )
        return self._device

    def is_first_worker(self) -> bool:
        """Whether this process is worker 0."""
        return self.role.is_first_worker()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self.role.is_worker()

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return self.role.is_server()

    def worker_index(self) -> int:
        """Index of this worker, from 0; on a server, the server's index (as in the original)."""
        return self.role.worker_index()

    def worker_num(self) -> int:
        """Number of workers in the job."""
        return self.role.worker_num()

    def server_index(self) -> int:
        """Index of this server, from 0; on a worker, the worker's index (as in the original)."""
        return self.role.server_index()

    def server_num(self) -> int:
        """Number of servers in the job."""
        return self.role.server_num()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """HOST:PORT of every worker, as a list or joined by commas."""
        endpoints = self.role.get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """HOST:PORT of every server, as a list or joined by commas."""
        endpoints = self.role.get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def local_rank(self) -> int:
        """Index of this worker among those of its machine."""
        return self._identity().local_rank

    def node_num(self) -> int:
        """Number of machines in the job."""
        return self._identity().num_nodes

    def barrier_worker(self) -> None:
        """Return when every worker has come here."""
        self.util.barrier("worker")


fleet = Fleet()
"""The one shared instance."""

init = fleet.init
shutdown = fleet.shutdown
is_first_worker = fleet.is_first_worker
is_worker = fleet.is_worker
is_server = fleet.is_server
worker_index = fleet.worker_index
worker_num = fleet.worker_num
server_index = fleet.server_index
server_num = fleet.server_num
worker_endpoints = fleet.worker_endpoints
server_endpoints = fleet.server_endpoints
local_rank = fleet.local_rank
node_num = fleet.node_num
barrier_worker = fleet.barrier_worker


def __getattr__(name: str) -> object:
    if name in ("util", "device"):  # resolved when used: the first imports torch, the second exists only after init
        return getattr(fleet, name)
    raise AttributeError(f"module 'fleet.api' has no attribute {name!r}")
