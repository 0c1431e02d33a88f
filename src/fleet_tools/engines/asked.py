"""What a command line of fleetrun asks an engine for: how many processes of which role, with what each of them runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

from fleet.launch.arguments.options import MAX_LIVES, Options
from fleet.launch.planning.script import SELFCHECK_MODULE
from fleet.net import Endpoint

SERVER_PORT, WORKER_PORT, MEETING_PORT = 6170, 6180, 6000
MOUNT = PurePosixPath("/fleet")
"""Where a folder that was named without its beginning lies in a container."""
_SPELLED = {"tls": ("--tls", "--no-tls"), "banner": ("--banner", "--no-banner")}
_PLACES = frozenset(
    {"script", "script_args", "module", "ips", "servers", "workers", "master", "nnodes", "rank", "dry_run", "render"}
)
_RANGES = {"server_num": "server_range", "worker_num": "worker_range"}
"""Numbers that may change while the job runs, and what has their limits."""


@dataclass(frozen=True)
class EngineJob:
    """A job as an engine sees it; numbers are of the whole job, not of one machine."""

    options: Options
    command_line: str = ""
    """What was typed, which the artefact repeats in its first line."""
    memory: int | None = None
    """Bytes for each server; None: the site has to say."""

    @property
    def name(self) -> str:
        """The script's, as names of pods and hosts may be written."""
        words = self.options.script.removesuffix(".py").rpartition("/")[2] or "selfcheck"
        plain = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40].strip("-")
        return plain if plain[:1].isalpha() else f"job-{plain}".strip("-")

    @property
    def has_servers(self) -> bool:
        """Whether it is a job with parameter servers."""
        return self.options.is_server_job

    @property
    def num_nodes(self) -> int:
        """How many machines the command line has."""
        return self.options.nnodes.most

    @property
    def num_servers(self) -> int:
        """All servers, of all machines; where their number changes, those at the beginning."""
        return (self.options.server_num or 0) * self.num_nodes

    @property
    def num_workers(self) -> int:
        """All workers of a job with servers, the most there may be; of a collective one a fleetrun on each machine."""
        return (self.options.worker_num or 0) * self.num_nodes if self.has_servers else self.num_nodes

    @property
    def is_durable(self) -> bool:
        """Whether servers keep a journal."""
        return self.options.durable is not None

    @property
    def num_processes(self) -> int:
        """How many workers a machine of a collective job has."""
        return self.options.nproc_per_node or len(self.options.gpus or ()) or 1

    @property
    def worker_gpus(self) -> int:
        """GPUs for each worker, or for each machine of a collective job."""
        if self.options.device != "cuda" and not self.options.gpus:
            return 0
        return 1 if self.has_servers else len(self.options.gpus or ()) or self.num_processes

    @property
    def server_gpus(self) -> int:
        """GPUs for each server."""
        return 1 if self.options.server_device == "cuda" else 0

    @property
    def meeting_port(self) -> int:
        """Where machines of a collective job meet: the port of `--master`."""
        return MEETING_PORT if self.options.master is None else Endpoint.parse(self.options.master, "--master").port

    @property
    def durable_folder(self) -> str:
        """Where the journals lie inside a container."""
        return str(MOUNT / (self.options.durable or "kept"))

    @property
    def lives(self) -> int:
        """How often a process may be started again."""
        return self.options.max_restart

    @property
    def script(self) -> tuple[str, ...]:
        """What a worker runs, for a machine whose Python has another place."""
        if self.options.selfcheck:
            return ("python", "-m", SELFCHECK_MODULE)
        return ("python", *(("-m",) if self.options.module else ()), self.options.script, *self.options.script_args)

    @property
    def server(self) -> tuple[str, ...]:
        """What a server runs: servers are generic, and need no script."""
        return ("python", "-m", "fleet.ps.server", *(("--device", "cuda") if self.server_gpus else ()))

    def fleetrun(self, *places: str, leave: Collection[str] = ()) -> tuple[str, ...]:
        """The same command line for one machine, with `places` for what says where the others are."""
        words = ["fleetrun", *places]
        plain = Options(script="")
        for field in fields(Options):
            value, name = getattr(self.options, field.name), field.name
            is_default = value == getattr(plain, name) or (name == "max_restart" and self.is_default_of_durable)
            if name in _PLACES or name in leave or is_default or name in _RANGES.values():
                continue
            if name in _RANGES:
                value = getattr(self.options, _RANGES[name]) or value
            if name in _SPELLED:
                words.append(_SPELLED[name][0 if value else 1])
            elif value is True:
                words.append(f"--{name}")
            elif name in ("dashboard", "tensorboard"):
                words.append(f"--{name}={value}")
            else:
                words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
        if self.options.script:
            words += [*(("-m",) if self.options.module else ()), self.options.script, *self.options.script_args]
        return tuple(words)

    @property
    def is_default_of_durable(self) -> bool:
        """Whether `--max_restart` is what it is without being given."""
        return self.is_durable and self.options.max_restart == MAX_LIVES

    @property
    def headline(self) -> str:
        """What the artefact is of: its first line."""
        return self.command_line or shlex.join(self.fleetrun())
