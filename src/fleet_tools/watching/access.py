"""Who may read the figures and the page: programs of this machine or, with a token, whoever has it."""

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from fleet import env, net
from fleet.errors import UsageError

COOKIE = "fleet_token"
SHORTEST = 16


class Access:
    """Decides about one request at a time. Without a token the port is open on loopback alone."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    @property
    def host(self) -> str:
        """The address to listen on."""
        return net.LOOPBACK if self._token is None else "0.0.0.0"

    def admits(self, host: str, authorization: str, cookies: str) -> bool:
        """Whether a request with these headers may be answered.

        Without a token, one that names another host comes from a page of a stranger, whose name leads here: refused.
        """
        if self._token is None:
            return _is_own(host)
        kind, _, given = authorization.partition(" ")
        is_bearer = kind.lower() == "bearer" and self.is_token(given.strip())
        return is_bearer or hmac.compare_digest(_cookie(cookies).encode(), self.cookie.encode())

    @property
    def cookie(self) -> str:
        """What a browser that has shown the token is given in its place."""
        return hmac.new((self._token or "").encode(), b"fleetrun page", "sha256").hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether this is the token; how long that takes says nothing about it."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def own_access() -> Access:
    """What FLEET_METRICS_TOKEN says; UsageError if it could be guessed."""
    token = env.FLEET_METRICS_TOKEN.get()
    if token is not None and len(token) < SHORTEST:
        raise UsageError(
            f"FLEET_METRICS_TOKEN has {len(token)} characters, which others may guess; make one of {SHORTEST} or more "
            "with: openssl rand -hex 16"
        )
    return Access(token)


def _is_own(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in ("localhost", net.LOOPBACK, "::1")


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
