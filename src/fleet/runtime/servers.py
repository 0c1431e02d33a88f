"""How a worker reaches its servers: over gRPC, or, in a job without servers, one in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet import env
from fleet.errors import UsageError
from fleet.ps.transport import LocalTransport, Transport

if TYPE_CHECKING:
    from fleet.roles import Identity


def connect(who: Identity, model_dir: str | None = None) -> Sequence[Transport]:
    """One transport per server. Nothing is sent yet."""
    if not who.server_endpoints:
        if who.num_workers > 1:
            raise UsageError(
                f"this job has {who.num_workers} workers and no servers, so each would train tables of its own; start "
                "it with servers: fleetrun --server_num 2 --worker_num 2 train.py"
            )
        from fleet.ps.service import Service

        return [LocalTransport(Service(model_dir=model_dir))]
    from fleet.ps.grpc_client import GrpcTransport

    token = env.FLEET_JOB_TOKEN.get()
    return [GrpcTransport(str(endpoint), token) for endpoint in who.server_endpoints]
