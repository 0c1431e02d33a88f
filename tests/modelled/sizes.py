"""The sizes that are checked, and what is done wrong on purpose: each of these must be found."""

from __future__ import annotations

from collections.abc import Mapping

from modelled.state import Size

SMALL: Mapping[str, Size] = {
    "pushes, one death": Size(("PL", "PL"), deaths=1),
    "steps, deaths of a worker and a server": Size(("PL", "PPL"), is_sync=True, deaths=1, restarts=1),
    "a copy, a machine and a process lost": Size(("PL",), False, "sync", (0,), num_servers=1, restarts=1, burns=1),
    "a copy that lags, a machine lost": Size(("PL",), False, "async", (0,), num_servers=1, burns=1),
    "rounds, everything once": Size(("PPL",), True, "sync", losses=1, deaths=1, restarts=1),
    "rounds, a copy, the machine of the worker lost": Size(("PL",), True, "sync", (1,), losses=1),
}
"""Checked whole in `make test`."""

LARGE: Mapping[str, Size] = {
    "pushes, two deaths": Size(("PL", "PL"), deaths=2),
    "pushes and shrinks, two deaths": Size(("PSL", "PSL"), deaths=2),
    "pushes and shrinks, three servers": Size(("PL", "SL"), num_servers=3, deaths=1),
    "steps, two deaths of workers and of servers": Size(("PPL", "PPL"), is_sync=True, deaths=2, restarts=2),
    "uneven steps, two deaths of workers and of servers": Size(("PL", "PPSL"), is_sync=True, deaths=2, restarts=2),
    "a copy, a worker dies and a machine is lost": Size(
        ("PL", "PL"), False, "sync", (0,), num_servers=1, deaths=1, burns=1
    ),
    "a copy, a server given up that lives": Size(("PL", "PL"), False, "sync", (0,), num_servers=1, doubts=1),
    "copies of both servers, a machine and a process lost": Size(("PL",), False, "sync", (0, 1), restarts=1, burns=1),
    "a copy of one of two servers, two machines lost": Size(("PL",), False, "sync", (0,), deaths=1, burns=2),
    "a copy, everything once": Size(
        ("PSL",), False, "sync", (0,), num_servers=1, deaths=1, restarts=1, burns=1, doubts=1
    ),
    "a copy that lags, a worker dies and a machine is lost": Size(
        ("PL", "PL"), False, "async", (0,), num_servers=1, deaths=1, burns=1
    ),
    "rounds, one has left and its machine is lost": Size(("PPL", "L"), True, "sync", losses=1),
    "rounds, a worker dies and the machine of one is lost": Size(("PL", "PL"), True, "sync", losses=1, deaths=1),
    "uneven rounds, a process and the machine of a worker lost": Size(
        ("PL", "PPL"), True, "sync", losses=1, restarts=1
    ),
    "rounds, a copy of the first server, its machine lost": Size(("PL", "PL"), True, "sync", (0,), burns=1),
    "rounds, a copy of the second server, its machine lost": Size(("PL", "PL"), True, "sync", (1,), burns=1),
    "rounds, copies of both, a machine of a server lost": Size(("PL",), True, "sync", (0, 1), burns=1),
    "rounds, copies of both, the machine of the worker lost": Size(("PL",), True, "sync", (0, 1), losses=1),
    "rounds, a copy, machines of a server and of the worker lost": Size(("PL",), True, "sync", (1,), burns=1, losses=1),
}
"""Checked whole by `make model`, beside the small ones."""

_TWO = Size(("PL", "PL"), deaths=1)
_UNEVEN = Size(("PL", "PPL"), is_sync=True, deaths=1)
_LOSES = Size(("PL",), True, "sync", losses=1)
_COPIED = Size(("PL",), False, "sync", (0,), num_servers=1, burns=1)

MUTATIONS: Mapping[str, tuple[Size, str]] = {
    "no ledger": (_TWO, "was made twice"),
    "send before writing down": (_TWO, "is stuck"),
    "answer before recording": (Size(("PL", "PL"), restarts=1), "has lost a change"),
    "leave unwritten": (_UNEVEN, "is stuck"),
    "one that has left joins steps": (_UNEVEN, "is stuck"),
    "a first word begins a life": (_TWO, "is stuck|is not on server"),
    "answer before the copy has it": (_COPIED, "has lost a change"),
    "promote a copy that is not listed": (_COPIED, "has lost a change"),
    "steps in one round": (_LOSES, "is not on server|is stuck"),
    "former pushes are left": (_LOSES, "is stuck"),
    "who has left is not known": (
        _UNEVEN._replace(scripts=("PL", "L"), standby="sync", deaths=0, losses=1),
        "is stuck",
    ),
    "a promise is forgotten": (_COPIED._replace(restarts=1), "has lost a change"),
}
"""What `state.Size.broken` may be: a size in which it shows, and as what; of two that are as near, either."""
