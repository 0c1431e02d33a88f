"""`fleetrun --selfcheck`: do the processes of this job start, find their device and each other, and agree?

Run by fleetrun in place of a script, with whatever processes and machines its arguments describe.
"""

import platform
import signal
import time
from typing import Literal

import torch

import fleet
from fleet import _native, env

_PAYLOAD = 1 << 20
_ROUNDS = 5


def main() -> None:
    """Join the job, talk to everybody, and let worker 0 print the findings."""
    is_server_job = env.PADDLE_PSERVERS_IP_PORT_LIST.get() is not None
    fleet.init(is_collective=not is_server_job)
    world: Literal["all", "worker"] = "all" if is_server_job else "worker"
    role = "worker" if fleet.is_worker() else "server"
    finding = {
        "process": f"{role} {fleet.worker_index()}",
        "host": platform.node(),
        "device": str(env.FLEET_DEVICE.get() or "CPU").lower() if is_server_job else str(fleet.device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fleet": fleet.__version__,
        "native": "ok" if _native.unique(torch.tensor([3, 1, 3]).numpy())[0].tolist() == [1, 3] else "wrong answer",
    }
    findings = fleet.util.all_gather(finding, comm_world=world)

    payload = torch.ones(_PAYLOAD)
    fleet.util.all_reduce(payload, comm_world=world)
    started = time.perf_counter()
    for _ in range(_ROUNDS):
        total = fleet.util.all_reduce(payload, comm_world=world)
    elapsed_s = (time.perf_counter() - started) / _ROUNDS
    if not bool((total == len(findings)).all()):
        raise RuntimeError(f"all-reduce over {len(findings)} processes gave {total[0].item()}")
    if fleet.is_server():
        signal.pause()  # until fleetrun ends it, as a server that serves
    elif fleet.is_first_worker():
        _show(findings, elapsed_s)


def _show(findings: list[dict[str, str]], elapsed_s: float) -> None:
    columns = list(findings[0])
    widths = {name: max(len(name), *(len(row[name]) for row in findings)) for name in columns}
    for row in [dict(zip(columns, columns, strict=True)), *findings]:
        print("  ".join(row[name].ljust(widths[name]) for name in columns).rstrip())
    over = f"{len(findings)} process{'es' * (len(findings) > 1)}"
    print(f"all-reduce of {_PAYLOAD * 4 // 2**20} MiB over {over}: {elapsed_s * 1e3:.1f} ms, exact")
    differing = [name for name in ("python", "torch", "fleet") if len({row[name] for row in findings}) > 1]
    if differing:
        print(f"warning: the processes differ in {', '.join(differing)}")
    if any(row["native"] != "ok" for row in findings):
        raise RuntimeError(
            "the native core gives wrong answers; build it again with: pip install --force-reinstall torch-fleet"
        )
    print("selfcheck passed")


if __name__ == "__main__":
    main()
