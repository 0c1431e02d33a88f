"""SkyPilot: machines of a cloud with one fleetrun each, which meet at the first of them."""

from __future__ import annotations

import shlex

from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.yaml_text import Noted, comment, documents

_HINT = """{}
Before the first time: (umask 077; openssl rand -hex 32 > token), then
sky launch FILE --secret FLEET_JOB_TOKEN="$(cat token)\""""
_MEETING = (
    '--rank "$SKYPILOT_NODE_RANK" --master "$(echo "$SKYPILOT_NODE_IPS" | head -n 1):{}" --nnodes "$SKYPILOT_NUM_NODES"'
)


def render(job: EngineJob) -> str:
    """A task for `sky launch`."""
    words = shlex.join(job.fleetrun()[1:])
    meeting = f"{_MEETING.format(job.meeting_port)} " if job.num_nodes > 1 else ""
    resources: dict[str, object] = {"cpus": Noted("8+", "choose")}
    if gpus := max(
        job.worker_gpus * (job.options.worker_num or 1) if job.has_servers else job.worker_gpus, job.server_gpus
    ):
        resources["accelerators"] = Noted(f"A100:{gpus}", "choose")
    found = {
        "name": job.name,
        "num_nodes": job.num_nodes,
        "resources": resources,
        "workdir": ".",
        "secrets": {"FLEET_JOB_TOKEN": Noted(None, "given by --secret; nothing secret stands here")},
        "setup": Noted("pip install torch-fleet", "choose: or an image that has it"),
        "run": f"fleetrun {meeting}{words}\n",
    }
    return comment(_HINT.format(job.headline)) + documents(found)
