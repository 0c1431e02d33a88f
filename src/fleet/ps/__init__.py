"""The parameter server: what workers declare, what servers hold, and the calls between them.

In order, from the bottom: job, wire, journal, held, meetings, steps, durable, server; worker, stall, together, hot. A
room imports those before it. Outside this package ask for `worker.worker.Worker` and `server.service.Service`. In
public there is `Server`: one in any process.
"""

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.ps.server.server import Server as Server

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazily(__name__, {"server.server": "Server"})
