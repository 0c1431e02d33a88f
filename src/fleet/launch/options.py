"""What the user asked for, as typed data, each value checked alone; `plan` checks them against each other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Device = Literal["auto", "cpu", "cuda"]
ServerDevice = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Options:
    """The arguments of one `fleetrun`; None means not given."""

    script: str
    script_args: tuple[str, ...] = ()
    module: bool = False
    gpus: tuple[int, ...] | None = None
    nproc_per_node: int | None = None
    device: Device = "auto"
    ips: tuple[str, ...] | None = None
    start_port: int | None = None
    master: str | None = None
    nnodes: int = 1
    rank: int | None = None
    servers: str | None = None
    workers: str | None = None
    server_num: int | None = None
    worker_num: int | None = None
    server_device: ServerDevice | None = None
    log_dir: str = "log"
    max_restart: int = 0
    dry_run: bool = False
    quiet: bool = False
    selfcheck: bool = False

    @property
    def is_server_job(self) -> bool:
        """Any parameter-server option makes it a parameter-server job."""
        return any(value is not None for value in (self.servers, self.workers, self.server_num, self.worker_num))

    def items(self) -> list[tuple[str, str]]:
        """Name and value of each argument, sorted, for the banner."""
        return sorted(
            (_BANNER_NAMES.get(field.name, field.name), _show(field.name, getattr(self, field.name)))
            for field in fields(self)
        )


_BANNER_NAMES = {"script": "training_script", "script_args": "training_script_args"}


def _show(name: str, value: object) -> str:
    if name == "script_args":
        return str(list(value)) if isinstance(value, tuple) else "[]"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if value is None and name in ("servers", "workers", "master"):
        return ""
    return "127.0.0.1" if value is None and name == "ips" else str(value)
