"""What the user asked for, as typed data, each value checked alone; `plan` checks them against each other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol

from fleet.errors import UsageError
from fleet.observe.tracing.window import Window

Device = Literal["auto", "cpu", "cuda"]
ServerDevice = Literal["cpu", "cuda"]
Journal = Literal["os", "interval", "always"]
Standby = Literal["sync", "async"]
MAX_LIVES = 10
"""`--max_restart` of a durable job, when it is left out."""


@dataclass(frozen=True)
class Nodes:
    """How many machines, workers or servers a job may have; prints as it was written, `2` or `1:2`."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.is_range else str(self.most)

    @property
    def is_range(self) -> bool:
        """Whether the number may change while the job runs."""
        return self.least < self.most

    @classmethod
    def parse(cls, text: str, option: str = "--nnodes", what: str = "machine") -> Nodes:
        """Read `N` or `A:B`; UsageError if it is neither."""
        numbers = text.split(":")
        if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise UsageError(f"{option} {text!r} is neither a number of {what}s, such as 2, nor a range, such as 2:4")
        nodes = cls(int(numbers[0]), int(numbers[-1]))
        if nodes.least < 1:
            raise UsageError(f"{option} {text}: a job has at least 1 {what}; write 1 or more before the colon")
        if nodes.least > nodes.most:
            raise UsageError(f"{option} {text}: the least comes first; write {nodes.most}:{nodes.least}")
        return nodes


class AskedFaults(Protocol):
    """What `--chaos` asks for; `fleet_tools` knows what that is."""

    def refuse_useless(self, options: Options) -> None:
        """UsageError for faults that could strike nobody in this job."""


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
    nnodes: Nodes = Nodes(1, 1)
    rank: int | None = None
    servers: str | None = None
    workers: str | None = None
    server_num: int | None = None
    worker_num: int | None = None
    """The most there may be, where workers come and go; of servers, those at the beginning."""
    server_range: Nodes | None = None
    worker_range: Nodes | None = None
    """How many there may be, where their number may change; None: it is what it is."""
    server_device: ServerDevice | None = None
    log_dir: str = "log"
    max_restart: int = 0
    durable: str | None = None
    journal: Journal | None = None
    standby: Standby | None = None
    """Whether every server has a copy on another machine, and whether a push is acknowledged after its copy has it."""
    scale: str | None = None
    """How busy servers are to be kept by more workers, or fewer; None: as many as somebody asks for."""
    chaos: AskedFaults | None = None
    seed: int | None = None
    dry_run: bool = False
    render: str | None = None
    """The engine whose artefact is printed, and nothing started."""
    quiet: bool = False
    metrics_port: int | None = None
    """Where Prometheus finds the figures of this machine's processes; 0: at a free port."""
    dashboard: int | None = None
    """Where the page of the job is; 0: at a free port."""
    trace: Window | None = None
    """Which steps every process records."""
    tensorboard: str | None = None
    """Where curves for TensorBoard are written; empty: in the log folder."""
    banner: bool | None = None
    """Show arguments and variables first; None: for scripts that import paddle."""
    selfcheck: bool = False
    tls: bool | None = None
    """Encrypt what workers and servers say; None: where the job spans machines."""

    @property
    def is_server_job(self) -> bool:
        """Any parameter-server option makes it a parameter-server job."""
        return any(value is not None for value in (self.servers, self.workers, self.server_num, self.worker_num))

    @property
    def durable_terms(self) -> str:
        """What the machines of a job must agree on, after other terms; the folders may differ."""
        if self.durable is None:
            return ""
        number = "" if self.server_num is None else f", --server_num {self.server_num}"
        if self.standby is not None:
            return f", --durable, --standby {self.standby}{number}"
        return ", --durable" if self.worker_range is None else f", --durable, --worker_num {self.worker_range}"

    def items(self) -> list[tuple[str, str]]:
        """Name and value of each argument, sorted, for the banner."""
        return sorted(
            (_BANNER_NAMES.get(field.name, field.name), _show(field.name, getattr(self, field.name)))
            for field in fields(self)
            if not field.name.endswith("_range")
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
