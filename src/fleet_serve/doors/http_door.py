"""The way in by HTTP, for people, probes and programs without gRPC.

    GET  /healthz      200 as long as the process answers; no token is asked for
    GET  /readyz       200 where requests may come, otherwise 503 and why not; no token is asked for
    GET  /v1/info      tables, version, lag
    GET  /metrics      figures for Prometheus
    POST /v1/lookup    {"tables": {"TABLE": [key, ...]}}
                       {"version": {...}, "tables": {"TABLE": {"rows": [[...], ...], "unseen": 0}}}
                       {"columns": {"COLUMN": [value, ...]}, "tables": {"TABLE": "COLUMN"}}   by the folder's schema; of
                       a column with several values a sample "offsets" say where the rows of each begin, and the end
    POST /v1/predict   {"inputs": {"ids": [[1, 2], [3, 4]]}}   or columns, as above, of which inputs are made
                       {"version": {...}, "outputs": {"0": [0.1, 0.7]}}

Others show the token: `Authorization: Bearer TOKEN`. What is refused has {"error": "..."} and a status of its own.
"""

from __future__ import annotations

import hmac
import io
import json
import logging
import socket
import ssl
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fleet.errors import EndpointError, FleetError, NotReadyError, UsageError
from fleet.net import Endpoint, own_address
from fleet.ps.wire.budget import in_words
from fleet.ps.wire.trust.own_token import check_exposure
from fleet.ps.wire.trust.tls import Tls
from fleet_serve.doors.answers import Answers
from fleet_serve.doors.figures import exposition
from fleet_serve.doors.json_forms import info, lookup, predict

PATIENCE_S = 10.0
"""How long a caller may take to begin, for a whole head, and for a body of `BODY_BYTES`; a longer one has longer."""
BODY_BYTES = 10 << 20
IDLE_S = 60.0
"""How long a caller may take to ask again, or to take an answer."""
MOST_CONNECTIONS = 256

_log = logging.getLogger("fleet.serve")


class HttpDoor:
    """A port that answers by HTTP. It is taken when this is made, and answers from `start` to `stop`."""

    def __init__(
        self,
        answers: Answers,
        endpoint: Endpoint,
        token: str | None,
        *,
        allow_anonymous: bool = False,
        tls: Tls | None = None,
    ) -> None:
        check_exposure(endpoint, token, allow_anonymous)
        try:
            self._server = _Server((own_address(endpoint.host), endpoint.port), answers, token, _context(tls))
        except OSError as error:
            why = error.strerror or error
            raise EndpointError(f"--http {endpoint}: the port cannot be had ({why}); choose another") from None
        self.endpoint = Endpoint(endpoint.host, int(self._server.server_address[1]))
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fleet-serve-http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections, and end those that are open."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.end_connections()


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_into(context)
    context.load_verify_locations(cadata=tls.authority.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], answers: Answers, token: str | None, context: ssl.SSLContext | None
    ) -> None:
        self.answers = answers
        self._token = None if token is None else token.encode()
        self._context = context
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """As usual, without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def admits(self, authorization: str) -> bool:
        """Whether these words show the token, if one is asked for."""
        kind, _, given = authorization.partition(" ")
        is_token = hmac.compare_digest(given.strip().encode(errors="replace"), self._token or b"")
        return self._token is None or (kind.lower() == "bearer" and is_token)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there is a place for one more."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """A connection: TLS is spoken here, so that a slow caller keeps nobody waiting."""
        try:
            request.settimeout(PATIENCE_S)
            if self._context is not None:
                request = self._context.wrap_socket(request, server_side=True)
            with self._lock:
                self._open.add(request)
            super().process_request_thread(request, client_address)
        except OSError:  # no TLS, or gone
            self.shutdown_request(request)
        finally:
            with self._lock:
                self._open.discard(request)
            self._places.release()

    def end_connections(self) -> None:
        """End those that wait for a next request."""
        with self._lock:
            for one in self._open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A caller that is gone is no news."""
        _log.debug("a caller by HTTP failed", exc_info=True)


class _Input(io.RawIOBase):
    """What a caller sends, up to a moment: one byte after the other takes no longer than all at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline: float | None = time.monotonic() + PATIENCE_S
        """By when all must be there; None: it begins with the next byte, which may take `IDLE_S`."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = IDLE_S if self.deadline is None else self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.settimeout(left_s)
        size = self._connection.recv_into(buffer)
        self.deadline = self.deadline or time.monotonic() + PATIENCE_S
        return size


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "fleet-serve"
    sys_version = ""
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._input = _Input(self.connection)
        self.rfile = io.BufferedReader(self._input, 1 << 16)

    def handle_one_request(self) -> None:
        """One request, in its time, and its answer."""
        super().handle_one_request()
        self._input.deadline = None

    def do_GET(self) -> None:
        answers = self.server.answers
        if self.path == "/healthz":
            self._answer(HTTPStatus.OK, json.dumps({"status": "ok"}).encode())
        elif self.path == "/readyz":
            why = answers.why_not_ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
            self._answer(status, json.dumps({"error": why} if why else {"status": "ok"}).encode())
        elif self._is_admitted():
            if self.path == "/metrics":
                self._told(lambda: exposition(answers))
            elif self.path == "/v1/info":
                self._told(lambda: info(answers))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}; see fleet-serve --help")

    def do_POST(self) -> None:
        if not self._is_admitted():
            return
        call = {"/v1/lookup": lookup, "/v1/predict": predict}.get(self.path)
        if call is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"nothing is posted to {self.path}; see fleet-serve --help")
            return
        length = self.headers.get("Content-Length", "")
        most = self.server.answers.most_bytes
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length; send one")
        elif int(length) > most:
            text = (
                f"the request has {in_words(int(length))}, over the limit of {in_words(most)}; ask for fewer keys at a"
            )
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{text} time, or raise --max_bytes of the server")
        else:
            self._input.deadline = time.monotonic() + PATIENCE_S * (1 + int(length) / BODY_BYTES)
            data = self.rfile.read(int(length))
            if len(data) == int(length):
                self._told(lambda: call(self.server.answers, data))
            else:
                self.close_connection = True

    def _is_admitted(self) -> bool:
        if self.server.admits(self.headers.get("Authorization", "")):
            return True
        self._refuse(HTTPStatus.UNAUTHORIZED, "this needs the token: Authorization: Bearer FLEET_JOB_TOKEN")
        return False

    def _told(self, call: Any) -> None:
        try:
            told = call()
            data = told if isinstance(told, bytes) else json.dumps(told, separators=(",", ":")).encode()
            if len(data) > (most := self.server.answers.most_bytes):
                raise UsageError(
                    f"the answer would have {in_words(len(data))}, over the limit of {in_words(most)}; ask for less at "
                    "a time, by gRPC, or raise --max_bytes of the server"
                )
            self._answer(HTTPStatus.OK, data, is_text=isinstance(told, bytes))
        except NotReadyError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except FleetError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except OSError:
            raise
        except Exception as error:
            _log.exception("a request failed")
            text = f"it failed with {type(error).__name__}: {error}; the server's log has the trace"
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, text)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """One line, and the connection ends: what else the caller has sent is not read."""
        self.server.answers.refused("http")
        self.close_connection = True
        self._answer(status, json.dumps({"error": text}).encode())

    def _answer(self, status: HTTPStatus, data: bytes, *, is_text: bool = False) -> None:
        self.connection.settimeout(IDLE_S)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8" if is_text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing: figures say how many there were."""
