"""A server that may write inside its roots alone: no field of a request, by whatever way it comes, leads elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.ps.proto import ps_pb2
from fleet.ps.server.roots import PATHS
from fleet.ps.wire import messages as wire
from support.plane.fuzz_requests import JOB, right
from support.plane.plane import served

NO_PATHS = {"job", "name", "text", "queue", "table", "tables", "keys", "file", "url"}
"""Texts in requests that name no file, or (`file`, of Follow) one of a list: tests/unit/ps/standby asks for others; or
a place by its URL (of Publish), which has a test of its own below."""
OF_PATHS = [
    (method, name)
    for method in wire.METHODS
    for name in PATHS
    if hasattr(getattr(ps_pb2, f"{method}Request").Header(), name)
]


def test_every_text_of_a_request_is_a_path_or_known_to_be_none() -> None:
    for method in wire.METHODS:
        for field in getattr(ps_pb2, f"{method}Request").Header.DESCRIPTOR.fields:
            if field.cpp_type == field.CPPTYPE_STRING and field.type == field.TYPE_STRING:
                assert field.name in {*PATHS, *NO_PATHS}, (
                    f"{method}.{field.name}: is it a path? see fleet.ps.server.roots"
                )
    assert len(OF_PATHS) == 3


@pytest.mark.parametrize("kind", ["GRPC", "SHM", "TCP"])
@pytest.mark.parametrize(("method", "name"), OF_PATHS)
def test_no_path_leads_out_of_the_roots(
    kind: str, method: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    monkeypatch.setenv("FLEET_ROOTS", str(inside))
    with served(kind) as one:
        transport = one.transport()
        caller = ps_pb2.Caller(worker=0, incarnation=1)

        def call(method: str, header: Any, tensors: Any = ()) -> Any:
            return transport.call(method, header, tensors, 20.0).result(20.0)[0]

        declared = call("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=JOB.to_json(), life=7))
        caller = ps_pb2.Caller(worker=0, incarnation=declared.incarnation, instance=declared.instance)
        for first in ("Start", "Push"):
            call(first, *right(first, caller))
        for folder in (outside, inside / ".." / "outside" / "new"):
            header, tensors = right(method, caller)
            setattr(header, name, str(folder))
            with pytest.raises(UsageError, match="is outside of what this server may write and read"):
                call(method, header, tensors)
        assert list(outside.iterdir()) == []


@pytest.mark.parametrize("check_only", [True, False])
def test_nothing_is_published_outside_of_the_roots(
    check_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    monkeypatch.setenv("FLEET_ROOTS", str(inside))
    with served("GRPC") as one:
        transport = one.transport()
        caller = ps_pb2.Caller(worker=0, incarnation=1)
        declared = ps_pb2.DeclareRequest.Header(caller=caller, job=JOB.to_json(), life=7)
        reply: Any = transport.call("Declare", declared, (), 20.0).result(20.0)[0]
        caller = ps_pb2.Caller(worker=0, incarnation=reply.incarnation, instance=reply.instance)
        for url in (str(outside / "stream"), f"file://{outside}/stream", f"{inside}/../outside/stream"):
            header = ps_pb2.PublishRequest.Header(
                caller=caller, sequence=1, url=url, every_s=1.0, check_only=check_only
            )
            with pytest.raises(UsageError, match="is outside of what this server may write and read"):
                transport.call("Publish", header, (), 20.0).result(20.0)
    assert list(outside.iterdir()) == []
