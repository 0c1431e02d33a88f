"""What a plan has to know of the machine that it is for, looked up once before anything is planned."""

from dataclasses import dataclass, field
from pathlib import Path

from fleet import env
from fleet.cores import num_cores
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.planning import devices
from fleet.launch.planning.server_needs import roles_here


@dataclass(frozen=True)
class Machine:
    """One machine as a plan sees it."""

    num_cores: int = 1
    num_gpus: int = 0
    """How many it has; not looked for where no process wants one."""
    worker_gpus: tuple[str, ...] | None = None
    """The GPUs that workers may use, as CUDA_VISIBLE_DEVICES names them; of a collective job one for each worker."""
    server_gpus: tuple[str, ...] = ()
    """The GPUs that servers may use."""
    variables: env.Environ = field(default_factory=dict)
    """What the user has set, which is never set otherwise."""
    folder: Path = Path("/")
    """Where fleetrun was started."""

    @property
    def has_gpus(self) -> bool:
        """Whether workers train on GPUs."""
        return bool(self.worker_gpus)


def look(options: Options) -> Machine:
    """This machine; UsageError if it has no GPU for those who are to have one."""
    if options.is_server_job:
        gpus, server_gpus = _server_job_gpus(options)
        num_gpus = 0
    else:
        num_gpus = 0 if options.device == "cpu" else devices.count_gpus()
        gpus, server_gpus = devices.assign_gpus(options, devices.visible_gpus(num_gpus)), ()
    return Machine(num_cores(), num_gpus, gpus, server_gpus, env.inherited(), Path.cwd())


def _server_job_gpus(options: Options) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The GPUs of this machine's workers and of its servers: none, unless asked for.

    Servers are for ordinary machines. A machine that starts only the others needs no GPU.
    """
    has_servers, has_workers = roles_here(options)
    wanted = options.device == "cuda" and has_workers, options.server_device == "cuda" and has_servers
    gpus = devices.visible_gpus(devices.count_gpus()) if any(wanted) else ()
    if any(wanted) and not gpus:
        asked = "--device" if wanted[0] else "--server_device"
        what = "train" if wanted[0] else "keep the tables"
        raise UsageError(
            f"{asked} cuda: this machine has no GPU that may be used; add {asked} cpu to {what} on the CPU"
        )
    return gpus if wanted[0] else None, gpus if wanted[1] else ()
