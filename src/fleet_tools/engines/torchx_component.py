"""Components of TorchX, for `torchx run fleet.ps` and `torchx run fleet.dist`; the entry point is in pyproject.toml.

TorchX reads the signatures and docstrings here, so they are written as it wants them.
"""

import shlex

from torchx import specs
from torchx.specs import macros

from fleet.launch.arguments.options import MAX_LIVES
from fleet_tools.engines.asked import MEETING_PORT, WORKER_PORT

_FIRST = "$${" + macros.rank0_env + ":=localhost}"


def ps(
    *script_args: str,
    script: str = "",
    m: str = "",
    servers: int = 1,
    workers: int = 2,
    shared: str = ".fleet",
    durable: str = "",
    journal: str = "os",
    lives: int = MAX_LIVES,
    token_file: str = "",
    image: str = "torch-fleet:latest",
    name: str = "fleet",
    cpu: int = 4,
    gpu: int = 0,
    server_gpu: int = 0,
    memMB: int = 8192,  # noqa: N803
    mounts: str = "",
) -> specs.AppDef:
    """A job with parameter servers: a role of servers and a role of workers, which find each other in a folder.

    Args:
        script_args: what the script is given
        script: the training script
        m: the training module, instead of a script
        servers: number of parameter servers
        workers: number of workers
        shared: a folder that all replicas see; servers say there where they listen
        durable: a folder that all replicas see, for journals: who dies is started again inside its replica
        journal: when a journal reaches the disk: os, interval or always
        lives: how often a replica's process may be started again within ten minutes
        token_file: file with the job's secret; without it, FLEET_JOB_TOKEN has to be in the environment
        image: where Fleet and the script are
        name: of the job
        cpu: cores of each replica
        gpu: GPUs of each worker
        server_gpu: GPUs of each server
        memMB: memory of each replica
        mounts: as dist.ddp takes them: type=bind,src=/shared,dst=/shared
    """
    where = f"{shared}/{macros.app_id}"
    common = {
        "FLEET_INDEX": macros.replica_id,
        "FLEET_SERVERS": f"file:{where}",
        "FLEET_SERVER_NUM": str(servers),
        "FLEET_WORKERS": str(workers),
    }
    if durable:
        common |= {"FLEET_DURABLE": durable, "FLEET_JOURNAL": journal, "FLEET_RECOVERY_TIMEOUT_S": "600"}
    if token_file:
        common["FLEET_JOB_TOKEN_FILE"] = token_file
    lives_on = ["-m", "fleet.job", "--max_restart", str(lives), "python"] if durable else []
    meeting = f'MASTER_ADDR="{_FIRST}" MASTER_PORT={WORKER_PORT} ' if not durable else ""  # else they meet at a server

    def role(kind: str, number: int, words: list[str], gpus: int) -> specs.Role:
        command = shlex.join(["python", *lives_on, *words]).replace("$", "$$")
        return specs.Role(
            name=kind,
            image=image,
            entrypoint="sh",
            args=[
                "-c",
                f"{meeting if kind == 'worker' else ''}exec python -m fleet_tools.engines.replica {where} {command}",
            ],
            env={"FLEET_ROLE": kind, **common, **({"FLEET_DEVICE": "cuda"} if gpus else {})},
            num_replicas=number,
            resource=specs.Resource(cpu=cpu, gpu=gpus, memMB=memMB),
            mounts=specs.parse_mounts(mounts.split(",")) if mounts else [],
        )

    work = [*(["-m", m] if m else [script]), *script_args]
    serve = ["-m", "fleet.ps.server", *(["--device", "cuda"] if server_gpu else [])]
    # Workers first: that is whose host the others know.
    roles = [role("worker", workers, work, gpu), role("server", servers, serve, server_gpu)]
    return specs.AppDef(name=name, roles=roles)


def dist(
    *script_args: str,
    script: str = "",
    m: str = "",
    j: str = "1x2",
    image: str = "torch-fleet:latest",
    name: str = "fleet",
    device: str = "auto",
    cpu: int = 8,
    gpu: int = 0,
    memMB: int = 16384,  # noqa: N803
    port: int = MEETING_PORT,
    mounts: str = "",
) -> specs.AppDef:
    """A collective job: a fleetrun on each machine, which meet at the first of them.

    Args:
        script_args: what the script is given
        script: the training script
        m: the training module, instead of a script
        j: machines and workers on each: 2x8
        image: where Fleet and the script are
        name: of the job
        device: auto, cpu or cuda
        cpu: cores of each machine
        gpu: GPUs of each machine
        memMB: memory of each machine
        port: where the machines meet
        mounts: as dist.ddp takes them: type=bind,src=/shared,dst=/shared
    """
    nodes, _, workers = j.partition("x")
    words = ["--nproc_per_node", workers or "1", "--device", device, *(["-m", m] if m else [script]), *script_args]
    meeting = f'--rank {macros.replica_id} --master "{_FIRST}:{port}" --nnodes {nodes} ' if int(nodes) > 1 else ""
    return specs.AppDef(
        name=name,
        roles=[
            specs.Role(
                name="machine",
                image=image,
                entrypoint="sh",
                args=["-c", f"exec python -m fleet.launch {meeting}{shlex.join(words).replace('$', '$$')}"],
                num_replicas=int(nodes),
                resource=specs.Resource(cpu=cpu, gpu=gpu, memMB=memMB),
                mounts=specs.parse_mounts(mounts.split(",")) if mounts else [],
            )
        ],
    )
