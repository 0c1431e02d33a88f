"""What a process may ask about its job: who am I, how many are we, where are the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fleet.errors import NotReadyError
from fleet.roles.base import Identity, RoleMaker

T = TypeVar("T")


def _of_role(ask: Callable[[RoleMaker], T], doc: str) -> Callable[[Questions], T]:
    """A method that calls the role maker's method of the same name."""
    name = ask.__name__

    def answer(self: Questions) -> T:
        found: T = getattr(self.role, name)()
        return found

    answer.__name__, answer.__qualname__, answer.__doc__ = name, f"Questions.{name}", doc
    return answer


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

    is_first_worker = _of_role(RoleMaker.is_first_worker, "Whether this process is worker 0.")
    is_worker = _of_role(RoleMaker.is_worker, "Whether this process trains.")
    is_server = _of_role(RoleMaker.is_server, "Whether this process holds parameters.")
    worker_index = _of_role(
        RoleMaker.worker_index, "Index of this worker, from 0; on a server, the server's index (as in PaddlePaddle)."
    )
    worker_num = _of_role(RoleMaker.worker_num, "Number of workers in the job.")
    server_index = _of_role(
        RoleMaker.server_index, "Index of this server, from 0; on a worker, the worker's index (as in PaddlePaddle)."
    )
    server_num = _of_role(RoleMaker.server_num, "Number of servers in the job.")

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
