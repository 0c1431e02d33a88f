"""The seam between workers and servers: what a server does (`Handler`), and how a worker reaches one (`Transport`).

Workers know transports only. `LocalTransport` calls a service in the same process, `grpc_client.GrpcTransport` one
anywhere; training is the same program over both.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol, TypeAlias

from google.protobuf.message import Message

from fleet.errors import FleetError
from fleet.ps.wire.messages import Tensor, Tensors

Answer: TypeAlias = "Future[tuple[Message, Tensors]]"


class Handler(Protocol):
    """What a server does, without any network.

    A service may also have `finished`, a threading.Event that it sets when nobody needs it any more, and `close()`,
    which is called when the server is asked to stop: calls that wait for something must then end soon, with an error.
    """

    def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        """Answer one call of proto/ps.proto, for example `Pull`. Called from many threads at once; may block.

        Tensors are read only, on both sides. A push may keep them until its step is complete, so the caller never
        writes to them again.
        An error that is meant for the caller is a FleetError.
        """
        ...


class Transport(Protocol):
    """One server, seen from a worker. Safe to use from many threads."""

    endpoint: str

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        """Start a call. Its answer or its error, a FleetError, is in the future; this itself raises nothing."""
        ...

    def look_again(self) -> bool:
        """See whether the server is elsewhere now; if so, calls that wait are lost, and can be made again."""
        return False

    def close(self) -> None:
        """End the calls that run, and free everything; calling it again changes nothing."""
        ...


def failed(error: FleetError) -> Answer:
    """An answer that has failed already."""
    answer: Answer = Future()
    answer.set_running_or_notify_cancel()
    answer.set_exception(error)
    return answer


class TakesAhead(ABC):
    """A transport by which bytes of a push may be sent before the push is complete. Used by one thread at a time."""

    @property
    @abstractmethod
    def takes_ahead(self) -> bool:
        """Whether bytes may be sent ahead now, and doing so gains something."""

    @abstractmethod
    def send_ahead(self, pieces: Sequence[memoryview | bytes]) -> int:
        """Send a copy of bytes that a tensor of the next push will hold; their number, or 0 if they are not sent."""

    @abstractmethod
    def claim(self, tensor: Tensor, begin: int, number: int) -> None:
        """Say that bytes of this very tensor of the next push, from `begin` on, were sent ahead under this number.

        Bytes that have changed since are sent again.
        """

    @abstractmethod
    def forget_ahead(self, number: int) -> None:
        """What was sent ahead under this number will not be claimed."""

    @abstractmethod
    def settle_ahead(self) -> int:
        """How many bytes of the pushes since the last call of this were sent ahead, and not sent again."""


class LocalTransport(Transport):
    """A service in this process: the call runs inside `call`, without copies and without threads.

    The time limit of a call has no effect here: nothing can end the service but itself.
    """

    def __init__(self, service: Handler, endpoint: str = "in this process") -> None:
        self.endpoint = endpoint
        self.service = service

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:  # noqa: ARG002
        answer: Answer = Future()
        answer.set_running_or_notify_cancel()
        try:
            answer.set_result(self.service.handle(method, header, tensors))
        except Exception as error:
            answer.set_exception(error)
        return answer

    def close(self) -> None:
        """Nothing to free: the service belongs to whoever made it."""
