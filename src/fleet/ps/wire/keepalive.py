"""How both ends of a connection look for a peer that has gone without a word, in settings that agree with each other.

A machine that lost its power says nothing, and a call that waits for it must notice. So each side pings the other while
it waits. A server that is pinged more often than it allows takes that for an attack and drops the connection
(`too_many_pings`), with or without calls on it.
"""

Options = tuple[tuple[str, int], ...]

PING_S = 20.0


def client_options(ping_s: float = PING_S) -> Options:
    """Options of a worker: it pings while a call waits."""
    return (
        ("grpc.keepalive_time_ms", int(ping_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(PING_S * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
    )


def server_options(ping_s: float = PING_S) -> Options:
    """Options of a server: it pings too, and allows workers four times as many pings as they send."""
    return (
        *client_options(ping_s),
        ("grpc.http2.min_ping_interval_without_data_ms", int(ping_s * 1000) // 4),
        ("grpc.keepalive_permit_without_calls", 1),
    )
