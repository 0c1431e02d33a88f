"""The settings of both ends of a connection: gRPC ignores what it does not know, so a wrong name says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc import _cython

from fleet.ps.server import grpc_server
from fleet.ps.wire import grpc_client
from fleet.ps.wire.keepalive import Options


@pytest.mark.parametrize("options", [grpc_client.OPTIONS, grpc_server.OPTIONS], ids=["client", "server"])
def test_grpc_knows_every_option_by_this_name(options: Options) -> None:
    (library,) = Path(_cython.__path__[0]).glob("cygrpc*.so")
    words = library.read_bytes()
    assert [name for name, _ in options if name.encode() not in words] == []


def test_a_server_allows_what_a_worker_does() -> None:
    worker, server = dict(grpc_client.OPTIONS), dict(grpc_server.OPTIONS)
    assert 2 * server["grpc.http2.min_ping_interval_without_data_ms"] < worker["grpc.keepalive_time_ms"]
    assert server["grpc.keepalive_permit_without_calls"] == 1
