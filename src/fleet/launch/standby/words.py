"""What is said on every machine when a term begins."""

import logging
from collections.abc import Sequence

from fleet.launch.standby.orders import Orders


def news(before: Orders, now: Orders, hosts: Sequence[str]) -> list[tuple[int, str]]:
    """A line for each thing that is new, and how loud to say it; `hosts` are the addresses of the machines."""

    def there(machine: int) -> str:
        return f"machine {machine} ({hosts[machine]})"

    moved = [
        f"server {server} goes on on {there(seat.machine)}"
        for server, seat in enumerate(now.servers)
        if seat != before.servers[server]
    ]
    moved += [
        f"worker {worker} is started on {there(post.machine)}"
        for worker, post in enumerate(now.workers)
        if post != before.workers[worker]
    ]
    if now.host != before.host:
        moved.insert(0, f"{there(now.host)} is the meeting point")
    lines = []
    if now.number > before.number and (now.why or moved):
        lines.append((logging.WARNING, f"{now.why}: {', '.join(moved) or 'it had no server and no worker'}"))
    for server, copy in enumerate(now.copies):
        had = before.copies[server]
        if copy is not None and copy != had:
            lines.append((logging.INFO, f"server {server} has a copy on {there(copy.machine)}"))
        elif copy is None and had is not None:
            filler = now.fills[server]
            what = "no other machine is left" if filler is None else f"a new one is filled on {there(filler)}"
            lines.append((logging.WARNING, f"server {server} has no copy: {what}"))
    return lines
