"""What a process may ask about its job: who am I, how many are we, where are the others."""

from __future__ import annotations

from fleet.errors import NotReadyError
from fleet.roles.base import Identity, RoleMaker


class Questions:
    """Answers for the role maker of a job, once there is one."""

    def _forget(self) -> None:
        self._role_maker: RoleMaker | None = None

    @property
    def role(self) -> RoleMaker:
        """The role maker; NotReadyError before `init`."""
        if self._role_maker is None:
            raise NotReadyError("fleet is not initialised; call fleet.init() first")
        return self._role_maker

    def _identity(self) -> Identity:
        return self.role.identity

    def is_initialized(self) -> bool:
        """Whether this process knows who it is: after `init`, until `shutdown`."""
        return self._role_maker is not None

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
        """Index of this worker, from 0; on a server, the server's index (as in PaddlePaddle)."""
        return self.role.worker_index()

    def worker_num(self) -> int:
        """Number of workers in the job."""
        return self.role.worker_num()

    def server_index(self) -> int:
        """Index of this server, from 0; on a worker, the worker's index (as in PaddlePaddle)."""
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
