"""Asks a `fleet-serve` from Python.

with ServingClient("127.0.0.1:8500") as client:
    rows, version = client.lookup({"user": user_ids, "item": item_ids})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from fleet.errors import UsageTypeError
from fleet.net import Endpoint
from fleet.ps.wire.status import TOKEN_KEY, error_of
from fleet.ps.wire.trust.own_token import token_for
from fleet.ps.wire.trust.tls import Tls
from fleet_serve.proto import serve_pb2

SERVICE = "fleet.serve.Serving"
_ANY_SIZE = -1


class ServingClient:
    """One server, by gRPC; with the token and the TLS of this process. Used from any number of threads."""

    def __init__(self, endpoint: str, *, timeout_s: float = 10.0) -> None:
        self._endpoint, self._timeout_s = endpoint, timeout_s
        token, tls = token_for(Endpoint.parse(endpoint)), Tls.from_environment()
        self._metadata = () if token is None else ((TOKEN_KEY, token),)
        options = [("grpc.max_receive_message_length", _ANY_SIZE), ("grpc.max_send_message_length", _ANY_SIZE)]
        if tls is None:
            self._channel = grpc.insecure_channel(endpoint, options)
        else:
            self._channel = grpc.secure_channel(endpoint, tls.for_client(), [*options, *tls.client_options])
        self._lookup = self._method("Lookup", serve_pb2.LookupReply)
        self._predict = self._method("Predict", serve_pb2.PredictReply)
        self._info = self._method("Info", serve_pb2.InfoReply)

    def lookup(
        self,
        keys: Mapping[str, npt.NDArray[np.int64] | str],
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> tuple[dict[str, npt.NDArray[np.float32]], serve_pb2.Version]:
        """Rows [n, width] of int64 keys [n] of each table, all of one moment, and of which.

        In the place of keys may stand the name of a category: what the folder's schema makes of `columns`.
        """
        request = serve_pb2.LookupRequest()
        for name, texts in (columns or {}).items():
            request.columns.add(name=name, texts=texts)
        for table, given in keys.items():
            if isinstance(given, str):
                request.tables.add(table=table, column=given)
                continue
            if getattr(given, "dtype", None) != np.int64 or given.ndim != 1:
                raise UsageTypeError(
                    f"keys of table {table!r} must be an int64 array of one dimension, got {given!r:.80}"
                )
            request.tables.add(table=table, keys=given.astype("<i8", copy=False).tobytes())
        reply = self._call("Lookup", self._lookup, request)
        rows = {one.table: np.frombuffer(one.rows, "<f4").reshape(-1, one.width) for one in reply.tables}
        return rows, reply.version

    def predict(
        self,
        inputs: Mapping[str, npt.NDArray[Any]] | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> tuple[dict[str, npt.NDArray[Any]], serve_pb2.Version]:
        """What the model makes of these inputs by name, all of one moment, and of which.

        Inputs that are not given are made of `columns` by the folder's schema.
        """
        request = serve_pb2.PredictRequest()
        for name, one in (inputs or {}).items():
            request.inputs.add(name=name, dtype=one.dtype.name, shape=one.shape, data=one.tobytes())
        for name, texts in (columns or {}).items():
            request.columns.add(name=name, texts=texts)
        reply = self._call("Predict", self._predict, request)
        return {
            one.name: np.frombuffer(one.data, one.dtype).reshape(tuple(one.shape)) for one in reply.outputs
        }, reply.version

    def info(self) -> serve_pb2.InfoReply:
        """What is served: tables, version, lag."""
        reply: serve_pb2.InfoReply = self._call("Info", self._info, serve_pb2.InfoRequest())
        return reply

    def _method(self, name: str, reply: Any) -> Any:
        return self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )

    def _call(self, name: str, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as failed:
            raise error_of(failed, self._endpoint, name, self._timeout_s) from None

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def __enter__(self) -> ServingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
