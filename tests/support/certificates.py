"""Certificates as fleetrun mints them for a job."""

from __future__ import annotations

from functools import cache

from fleet.launch.tls.authority import Authority
from fleet.ps.wire.trust.tls import Tls
from support.serving.serving import TOKEN


@cache
def authority(token: str) -> Authority:
    """That of the job with this token; it takes a moment."""
    return Authority.from_token(token)


def minted(token: str = TOKEN, name: str | None = "fleet-job") -> Tls:
    """What a process of that job shows and asks for; it looks for `name` at servers."""
    certificate, key = authority(token).issue("fleet-job")
    return Tls(certificate, key, authority(token).certificate, name)
