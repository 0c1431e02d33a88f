"""The port at which a job can be watched: figures for Prometheus, the page, and what the page asks for.

Everything is read from the log folder when somebody asks, by threads of their own: a reader that is slow, or gone,
costs the job nothing. There are never more than `MOST_READERS` of them.
"""

import contextlib
import json
import logging
import math
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from fleet.errors import UsageError
from fleet_tools.watching.access import COOKIE, Access

MOST_READERS = 32
PATIENCE_S = 10.0
"""How long a reader may take to ask, or to take a part of an answer."""
LAST_S = 1.0
"""How long answers under way are waited for at the end."""

_log = logging.getLogger(__name__)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Answer(NamedTuple):
    """What a path is answered with."""

    data: bytes
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Query = dict[str, str]
Routes = dict[str, Callable[[Query], Answer]]


def as_json(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """An answer in JSON; a number that is not finite, which JSON has not, is null."""
    return Answer(json.dumps(_finite(value), separators=(",", ":"), allow_nan=False).encode(), status=status)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


class WatchDoor:
    """One port. It is taken when this is made, and answers from `open` to `close`."""

    def __init__(self, port: int, option: str, access: Access, routes: Routes) -> None:
        """UsageError, which names the option, if the port cannot be had; 0: one that is free."""
        self._routes = routes
        self._access = access
        self._places = threading.BoundedSemaphore(MOST_READERS)
        self._busy = 0
        self._idle = threading.Condition()
        try:
            self._server = _Server(access.host, port, self)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(
                f"{option} {port}: the port cannot be had ({why}); choose another, or 0 for a free one"
            ) from None
        self.port = self._server.server_address[1]
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is found on this machine."""
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Begin to answer; a second time changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._server.serve_forever, args=(0.05,), name="fleet-door", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Answer who has asked, if that is soon, and end."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            with self._idle:
                self._idle.wait_for(lambda: not self._busy, LAST_S)
        self._server.server_close()

    def answer(self, path: str, query: Query, headers: Any) -> tuple[Answer, str | None]:
        """What a request gets, and the cookie that goes with it."""
        host, authorization, cookies = (headers.get(name, "") for name in ("Host", "Authorization", "Cookie"))
        if path == "/" and self._access.is_token(query.get("token", "")):  # as a browser comes the first time
            return Answer(b"", "text/plain", HTTPStatus.SEE_OTHER), self._access.cookie
        if not self._access.admits(host, authorization, cookies):
            text = "this page is for its own machine, or for whoever has FLEET_METRICS_TOKEN\n"
            return Answer(text.encode(), "text/plain", HTTPStatus.FORBIDDEN), None
        function = self._routes.get(path)
        if function is None:
            return as_json({"error": f"there is no {path}"}, HTTPStatus.NOT_FOUND), None
        try:
            return function(query), None
        except UsageError as error:
            return as_json({"error": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE), None

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        """Counts those who are being answered."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def has_place(self) -> bool:
        """Take a place for one more reader, if there is one."""
        return self._places.acquire(blocking=False)

    def leave(self) -> None:
        """Give it back."""
        self._places.release()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, door: WatchDoor) -> None:
        self.door = door
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """As usual, without asking a name server who we are."""
        self.allow_reuse_address = True
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there is a place for one more."""
        if not self.door.has_place():
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self.door.leave()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Whatever becomes of it, the place is free afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.door.leave()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A reader that is gone is no news."""
        _log.debug("a reader of the page failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version = "fleetrun"
    sys_version = ""
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self.server.door.reader():
            answer, cookie = self.server.door.answer(parts.path, query, self.headers)
            self.send_response(answer.status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            if cookie is not None:
                self.send_header("Set-Cookie", f"{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/")
                self.send_header("Location", "/")
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answer.data)
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_WR)

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal is the job's."""


def page_file(name: str) -> bytes:
    """A file of the page."""
    return (Path(__file__).parent / "page" / name).read_bytes()
