"""Two machines joined by 1 Gbit/s: what each way of coming together sends per step, and how long a step takes.

    python benchmarks/slow_link.py --json benchmarks/results/slow_link.json      (root: it makes network namespaces)

The machines are network namespaces on this one, joined by a cable that is slowed at both ends (tc tbf). Each runs one
worker with one thread: MLP 1024-4096-4096-10, 84 MB of gradients, batch 256, SGD with momentum 0.9. Bytes are counted
by the interface, with headers and acknowledgements, during the timed steps. Hand-written DDP runs beside ours.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from harness import write_results
from peers import BIN, Command, run_together
from rich.console import Console
from rich.table import Table
from turns import take_turns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hosts import Host, two_hosts, why_not

SCRIPTS = Path(__file__).parent / "scripts"
REFERENCE = "ReduceGrad"
MODES: Mapping[str, Sequence[str]] = {
    REFERENCE: ("reduce_grad",),
    "fp16 all-reduce": ("fp16_allreduce",),
    "LocalSGD, k 4": ("localsgd", "--k-steps", "4"),
    "LocalSGD, k 8": ("localsgd", "--k-steps", "8"),
    "DGC": ("dgc",),
}
MULTIPLE = 8
"""Of what the timed steps must be a multiple: then each LocalSGD averages as often as it does in the long run."""
BURST, LATENCY = "256kb", "50ms"

Hosts = tuple[Host, Host]
Workers = list[dict[str, float]]
"""What the two workers of a run wrote."""


def interface(host: Host, peer: Host) -> str:
    """The end of the cable on `host`."""
    words = ["ip", "-json", "-netns", host.namespace, "route", "get", peer.address]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=10)
    return str(json.loads(done.stdout)[0]["dev"])


def slow_down(hosts: Hosts, rate: str) -> None:
    """Let nothing leave either host faster than `rate`."""
    for host, peer in (hosts, hosts[::-1]):
        shape = ["tc", "qdisc", "add", "dev", interface(host, peer), "root"]
        limit = ["tbf", "rate", rate, "burst", BURST, "latency", LATENCY]
        subprocess.run([*host.prefix, *shape, *limit], check=True, timeout=10)


def ours(hosts: Hosts, mode: Sequence[str], steps: int, folder: Path) -> Workers:
    """Train once with a fleetrun on each host."""
    launcher: Command = [BIN / "fleetrun", "--quiet", "--nproc_per_node", "1", "--device", "cpu"]
    where: Command = ["--ips", ",".join(host.address for host in hosts)]
    script: Command = [SCRIPTS / "train_fleet.py", "--mode", *mode, *arguments(steps, folder)]
    return together(
        [[*host.prefix, *launcher, *where, "--log_dir", folder / host.namespace, *script] for host in hosts], folder
    )


def by_hand(hosts: Hosts, steps: int, folder: Path) -> Workers:
    """Train once by DDP, with a torchrun on each host; it has to be told the interface."""
    commands: list[Command] = []
    for rank, (host, peer) in enumerate((hosts, hosts[::-1])):
        settings: Command = ["env", f"GLOO_SOCKET_IFNAME={interface(host, peer)}"]
        launcher: Command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "1", "--nnodes", "2"]
        where: Command = ["--node_rank", str(rank), "--master_addr", hosts[0].address]
        script: Command = [SCRIPTS / "train_torch.py", "ddp", *arguments(steps, folder)]
        commands.append([*host.prefix, *settings, *launcher, *where, *script])
    return together(commands, folder)


def arguments(steps: int, folder: Path) -> Command:
    return ["--model", "mlp-momentum", "--steps", str(steps), "--out", folder]


def together(commands: list[Command], folder: Path) -> Workers:
    run_together(commands, folder)
    return [json.loads((folder / f"worker{index}.json").read_text()) for index in range(2)]


def cases_of(found: Mapping[str, Sequence[Workers]]) -> list[dict[str, Any]]:
    step_ms = {name: [workers[0]["step_ms"] for workers in runs] for name, runs in found.items() if runs}
    sent = {
        name: statistics.median(statistics.mean(worker["sent_bytes"] for worker in workers) for workers in found[name])
        for name in step_ms
    }
    cases = []
    for name, raw in step_ms.items():
        median = statistics.median(raw)
        case = {
            "case": name,
            "raw_step_ms": raw,
            "median_step_ms": median,
            "sent_bytes_per_step": sent[name],
            "cpu_ms_per_step": statistics.median(workers[0]["cpu_ms"] for workers in found[name]),
            "loss": found[name][-1][0]["loss"],
        }
        if REFERENCE in step_ms:
            case["times_faster_than_reduce_grad"] = statistics.median(step_ms[REFERENCE]) / median
            case["share_of_its_bytes"] = sent[name] / sent[REFERENCE]
        cases.append(case)
    return cases


def show(cases: Sequence[Mapping[str, Any]], rate: str) -> None:
    table = Table(title=f"MLP, 2 machines, {rate}: MB that each sends; share of it and speed against {REFERENCE}")
    table.add_column("mode", no_wrap=True)
    for header in ("ms/step", "range", "CPU", "MB/step", "share", "faster"):
        table.add_column(header, justify="right", no_wrap=True)
    for case in cases:
        raw = case["raw_step_ms"]
        table.add_row(
            case["case"],
            f"{case['median_step_ms']:,.0f}",
            f"{min(raw):,.0f}-{max(raw):,.0f}",
            f"{case['cpu_ms_per_step']:,.0f}",
            f"{case['sent_bytes_per_step'] / 1e6:,.2f}",
            f"{case['share_of_its_bytes']:.1%}" if "share_of_its_bytes" in case else "",
            f"{case['times_faster_than_reduce_grad']:.2f}" if "times_faster_than_reduce_grad" in case else "",
        )
    Console().print(table)


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often each mode is run.")
@click.option("--steps", default=16, show_default=True, help=f"Timed steps of a run, a multiple of {MULTIPLE}.")
@click.option("--rate", default="1gbit", show_default=True, help="Of the cable, as tc says it.")
@click.option("--only", multiple=True, metavar="TEXT", help="Only modes whose name contains it. May be repeated.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, rate: str, only: tuple[str, ...], path: Path | None) -> None:
    reason = why_not()
    if reason is not None:
        raise click.ClickException(f"no two machines here: {reason}")
    if steps < MULTIPLE or steps % MULTIPLE:
        raise click.BadParameter(f"--steps must be a multiple of {MULTIPLE}, got {steps}")
    with two_hosts() as hosts:
        slow_down(hosts, rate)
        contestants: dict[str, Callable[[Path], Workers]] = {
            name: partial(ours, hosts, mode, steps) for name, mode in MODES.items()
        }
        contestants["DDP by hand"] = partial(by_hand, hosts, steps)
        chosen = {name: run for name, run in contestants.items() if not only or any(text in name for text in only)}
        if not chosen:
            raise click.UsageError(f"--only {only[0]} fits none of: {', '.join(contestants)}")
        found, failures = take_turns(chosen, rounds)
    cases = cases_of(found)
    show(cases, rate)
    if path is not None:
        reasons = {name: reason.partition("\n")[0] for name, reason in failures.items()}
        link = {"rate": rate, "burst": BURST, "latency": LATENCY, "qdisc": "tbf at both ends of a veth pair"}
        write_results(path, cases, link=link, steps=steps, failures=reasons)
    if failures:
        raise click.ClickException(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
