"""Docker Compose: a service for each server and each worker, on one machine."""

from __future__ import annotations

from fleet_tools.engines import pods
from fleet_tools.engines.asked import SERVER_PORT, WORKER_PORT, EngineJob
from fleet_tools.engines.yaml_text import Noted, comment, documents

_HINT = """{}
Before the first time: (umask 077; openssl rand -hex 32 > token), then docker compose -f FILE up"""


def render(job: EngineJob) -> str:
    """A compose file."""
    services: dict[str, object] = {}
    servers = ",".join(f"server-{n}:{SERVER_PORT}" for n in range(job.num_servers))
    for n in range(job.num_servers):
        told = {"FLEET_ROLE": "server", "FLEET_INDEX": str(n), "FLEET_SERVERS": servers}
        services[f"server-{n}"] = _service(job, job.server, told, job.server_gpus)
    for n in range(job.num_workers):
        if job.has_servers:
            told = {"FLEET_ROLE": "worker", "FLEET_INDEX": str(n), "FLEET_SERVERS": servers}
            if not job.is_durable:
                ends = (f"worker-{one}:{WORKER_PORT}" for one in range(job.num_workers))
                told["FLEET_WORKER_ENDPOINTS"] = ",".join(ends)
            if job.worker_gpus:
                told["FLEET_DEVICE"] = "cuda"
            words = job.script
        else:
            places = ("--rank", str(n), "--master", f"worker-0:{job.meeting_port}", "--nnodes", str(job.num_nodes))
            told, words = {}, job.fleetrun(*(places if job.num_nodes > 1 else ()))
        services[f"worker-{n}"] = _service(job, words, told, job.worker_gpus)
    volumes: dict[str, object] = {"volumes": {"kept": {}}} if job.is_durable else {}
    found = {"name": job.name, "services": services, "secrets": {"token": {"file": "./token"}}, **volumes}
    return comment(_HINT.format(job.headline)) + documents(found)


def _service(job: EngineJob, words: tuple[str, ...], given: dict[str, str], gpus: int) -> dict[str, object]:
    told: dict[str, object] = {**given}
    if job.has_servers:
        told["FLEET_WORKERS"] = str(job.num_workers)
    if job.is_durable:
        told |= {"FLEET_DURABLE": job.durable_folder, "FLEET_RECOVERY_TIMEOUT_S": pods.RECOVERY}
    if job.options.journal is not None:
        told["FLEET_JOURNAL"] = job.options.journal
    wanted = {"driver": "nvidia", "count": gpus, "capabilities": ["gpu"]}
    return {
        "image": pods.IMAGE,
        "command": [word.replace("$", "$$") for word in words],
        "environment": {**told, "PYTHONUNBUFFERED": "1", "FLEET_JOB_TOKEN_FILE": "/run/secrets/token"},
        "secrets": ["token"],
        "stop_grace_period": f"{pods.GRACE_S}s",
        "restart": f"on-failure:{job.lives}" if job.lives else Noted("no", "--durable starts it again"),
        **({"volumes": [f"kept:{job.durable_folder}"]} if job.is_durable else {}),
        **({"deploy": {"resources": {"reservations": {"devices": [wanted]}}}} if gpus else {}),
    }
