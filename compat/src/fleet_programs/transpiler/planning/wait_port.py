"""Wait until servers listen."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence

from fleet import env
from fleet.errors import DeadlineError
from fleet.net import Endpoint

CONNECT_S = 2.0
PAUSE_S = 0.1
TELL_S = 3.0
DEFAULT_TIMEOUT_S = 300.0


def wait_for_ports(endpoints: Sequence[str]) -> None:
    """Return when every endpoint takes connections; says on stderr what it waits for.

    DeadlineError after FLEET_INIT_TIMEOUT_S, 300 when unset.
    """
    limit_s = env.FLEET_INIT_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S
    begin = time.monotonic()
    told: float | None = None
    while missing := [endpoint for endpoint in endpoints if not _is_open(endpoint)]:
        now = time.monotonic()
        if told is None or now - told >= TELL_S:
            print(f"server not ready, waiting for {', '.join(missing)}", file=sys.stderr, flush=True)
            told = now
        if now - begin > limit_s:
            raise DeadlineError(
                f"waited {limit_s:g} s for servers {', '.join(missing)}: nobody listens there. Are they started? "
                "FLEET_INIT_TIMEOUT_S sets how long to wait"
            )
        time.sleep(PAUSE_S)


def _is_open(endpoint: str) -> bool:
    where = Endpoint.parse(endpoint)
    try:
        with socket.create_connection((where.host, where.port), CONNECT_S):
            return True
    except OSError:
        return False
