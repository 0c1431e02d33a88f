"""TorchX: the command that runs the job by the components of `torchx_component`."""

from __future__ import annotations

import shlex

from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.yaml_text import comment

_HINT = """{}
Needs pip install 'torch-fleet[torchx]', and before the first time: (umask 077; openssl rand -hex 32 > token)
Choose the scheduler, and for containers --image and --mounts: all replicas must see the folder of --shared."""


def render(job: EngineJob) -> str:
    """A shell command."""
    options = job.options
    script = ["-m" if options.module else "--script", options.script]
    words = ["--name", job.name, *(["-m", "fleet_tools.selfcheck"] if options.selfcheck else script)]
    if job.worker_gpus:
        words += ["--gpu", str(job.worker_gpus)]
    if job.has_servers:
        words = ["fleet.ps", "--servers", str(job.num_servers), "--workers", str(job.num_workers), *words]
        words += ["--token_file", "token"]
        if job.is_durable:
            words += ["--durable", options.durable or "kept", "--lives", str(job.lives)]
        if options.journal is not None:
            words += ["--journal", options.journal]
        if job.server_gpus:
            words += ["--server_gpu", str(job.server_gpus)]
        if job.memory is not None:
            words += ["--memMB", str(job.memory >> 20)]
    else:
        words = ["fleet.dist", "-j", f"{job.num_nodes}x{job.num_processes}", "--device", options.device, *words]
        words += ["--port", str(job.meeting_port)]
    own = ["--", *options.script_args] if options.script_args else []
    return f"{comment(_HINT.format(job.headline))}torchx run --scheduler local_cwd {shlex.join([*words, *own])}\n"
