"""The way in by gRPC: proto/serve.proto, gRPC's health service, the token and TLS that servers of a job have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from fleet.errors import EndpointError, FleetError, UsageError
from fleet.net import Endpoint, Hold, listen, own_address
from fleet.ps.server.grpc_door import TokenGuard, abort
from fleet.ps.server.strangers import Strangers
from fleet.ps.wire.status import code_of
from fleet.ps.wire.trust.own_token import check_exposure
from fleet.ps.wire.trust.tls import Tls
from fleet_serve.doors.answers import Answers
from fleet_serve.proto import serve_pb2
from fleet_serve.rows.model import Keys, ServedVersion

SERVICE = "fleet.serve.Serving"
MOST_WAITING = 1024
"""Requests that wait for a thread; one more is told to come again."""
_SLACK_BYTES = 64 << 10
"""What a message may have beside keys or rows."""

_log = logging.getLogger("fleet.serve")


class GrpcDoor:
    """A port that answers by gRPC, with `threads` requests at a time."""

    def __init__(
        self,
        answers: Answers,
        endpoint: Endpoint,
        token: str | None,
        *,
        threads: int,
        allow_anonymous: bool = False,
        tls: Tls | None = None,
    ) -> None:
        check_exposure(endpoint, token, allow_anonymous)
        self._answers = answers
        self.endpoint = endpoint
        self._tls = tls
        self._hold: Hold | None = None
        self._strangers = Strangers()
        self._health = health.HealthServicer()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fleet-serve-grpc")
        most = answers.most_bytes + _SLACK_BYTES
        self._server = grpc.server(
            self._pool,
            interceptors=[TokenGuard(token, self._strangers, self._probed)] if token else [],
            options=[
                ("grpc.so_reuseport", 1),  # passes the hold on the port
                ("grpc.max_receive_message_length", most),
                ("grpc.max_send_message_length", most),
            ],
            maximum_concurrent_rpcs=threads + MOST_WAITING,
        )
        methods: dict[str, Callable[[bytes], Any]] = {
            "Lookup": self._lookup,
            "Predict": self._predict,
            "Info": self._info,
        }
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(self._told(call)) for name, call in methods.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.tell_health()

    def start(self) -> None:
        """Take the port and answer; EndpointError if it cannot be had."""
        self._hold = Hold(self.endpoint)
        self.endpoint = self._hold.endpoint
        address = str(Endpoint(own_address(self.endpoint.host), self.endpoint.port))
        try:
            if self._tls is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, self._tls.for_server())
        except RuntimeError:
            self.stop(0)
            listen(self.endpoint).close()  # says why not
            raise EndpointError(f"cannot serve on {address}; choose another port with --listen") from None
        self._server.start()

    def stop(self, grace_s: float) -> None:
        """Take no more requests, and give running ones this long."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait(grace_s + 1)
        self._strangers.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def tell_health(self) -> None:
        """Let gRPC's health service say whether requests may come."""
        status = health_pb2.HealthCheckResponse
        now = status.NOT_SERVING if self._answers.why_not_ready() else status.SERVING
        for name in ("", SERVICE):
            self._health.set(name, now)

    def _probed(self, context: grpc.ServicerContext) -> health_pb2.HealthCheckResponse:
        return self._health.Check(health_pb2.HealthCheckRequest(service=SERVICE), context)

    def _told(self, call: Callable[[bytes], Any]) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        """A call whose errors reach the caller, each in one line."""

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                reply: bytes = call(request).SerializeToString()
                return reply
            except FleetError as error:
                code, text = code_of(error), str(error)
            except DecodeError:
                code, text = (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "the request is no message of proto/serve.proto; make one",
                )
            except Exception as error:
                _log.exception("a request failed")
                code = grpc.StatusCode.INTERNAL
                text = f"it failed with {type(error).__name__}: {error}; the server's log has the trace"
            self._answers.refused("grpc")
            return abort(context, code, text)

        return answer

    def _lookup(self, data: bytes) -> serve_pb2.LookupReply:
        request = serve_pb2.LookupRequest.FromString(data)
        columns = {one.name: one.texts for one in request.columns}
        found, version = self._answers.lookup("grpc", [(one.table, _keys(one)) for one in request.tables], columns)
        tables = [
            serve_pb2.TableRows(
                table=one.table,
                width=one.rows.shape[1],
                rows=one.rows.tobytes(),
                unseen=one.num_unseen,
                offsets=None if one.offsets is None else one.offsets.tolist(),
            )
            for one in found
        ]
        return serve_pb2.LookupReply(version=_version(version), tables=tables)

    def _predict(self, data: bytes) -> serve_pb2.PredictReply:
        request = serve_pb2.PredictRequest.FromString(data)
        columns = {one.name: one.texts for one in request.columns}
        found, version = self._answers.predict("grpc", {one.name: _array(one) for one in request.inputs}, columns)
        outputs = [
            serve_pb2.Tensor(name=name, dtype=one.dtype.name, shape=one.shape, data=one.tobytes())
            for name, one in found.items()
        ]
        return serve_pb2.PredictReply(version=_version(version), outputs=outputs)

    def _info(self, _data: bytes) -> serve_pb2.InfoReply:
        why, state = self._answers.why_not_ready(), self._answers.state
        reply = serve_pb2.InfoReply(is_ready=not why, why_not=why, lag_s=state.lag_s, stream=state.stream)
        if self._answers.has_model:
            model = self._answers.model()
            reply.version.CopyFrom(_version(model.version))
            for table in model.tables.values():
                reply.tables.add(
                    table=table.name,
                    width=table.width,
                    rows=len(table.base),
                    changed=model.num_changed(table.name),
                    format=table.form,
                    unseen=table.unseen.reads,
                )
        return reply


def _keys(one: serve_pb2.TableKeys) -> Keys | str:
    if one.column:
        if one.keys:
            raise UsageError(f"table {one.table!r} is asked for by keys and by column {one.column!r}; send one of them")
        return str(one.column)
    if len(one.keys) % 8:
        raise UsageError(
            f"keys of table {one.table!r} have {len(one.keys)} bytes; send int64, little-endian, 8 bytes for each key"
        )
    return np.frombuffer(one.keys, "<i8")


def _array(one: serve_pb2.Tensor) -> npt.NDArray[Any]:
    try:
        return np.frombuffer(one.data, np.dtype(one.dtype).newbyteorder("<")).reshape(tuple(one.shape))
    except (TypeError, ValueError) as error:
        what = f"input {one.name!r} is no {one.dtype!r:.40} of shape {list(one.shape)[:8]}"
        raise UsageError(f"{what}: {error}; send its bytes row by row") from None


def _version(version: ServedVersion) -> serve_pb2.Version:
    return serve_pb2.Version(base=version.base, numbers=version.numbers)
