"""How the other systems train the same model on the same bytes, and the samples/s that each reports.

Their scripts are not part of this project: `scripts` below is the folder that has them. Each contestant is run in a
folder of its own, with one thread per process, and every process it leaves behind is ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
LIMIT_S = 300
# One thread a process, for every contestant: two cores carry two workers and two servers.
ENVIRON = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}

Command = list[str | Path]
Rate = Callable[[Path], float]
"""Train once, with a folder to write to; samples/s of all workers together."""


class RunError(Exception):
    """A contestant that did not get through; the text ends with what it said last."""


@dataclass(frozen=True)
class Peer:
    """A system that has to be installed on its own, the module that knows its version, and its contestants."""

    module: str
    contestants: Mapping[str, Callable[[Path, Path], Rate]]
    """By name: from the folder of scripts and the system's Python."""


def run(command: Command, folder: Path) -> str:
    """What the command printed; `RunError` when it fails or takes too long. Its processes end with it."""
    return run_together([command], folder)[0]


def run_together(commands: Sequence[Command], folder: Path) -> list[str]:
    """The same for commands that run at the same time."""
    outputs = [folder / f"output.{index}" for index in range(len(commands))]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_group(command, out)) for command, out in zip(commands, outputs, strict=True)]
        try:
            codes = [process.wait(LIMIT_S) for process in processes]
        except subprocess.TimeoutExpired as error:
            raise RunError(f"not done after {LIMIT_S} s: {_last_lines(outputs)}") from error
    if any(codes):
        raise RunError(f"exit codes {codes}: {_last_lines(outputs)}")
    return [out.read_text(errors="replace") for out in outputs]


@contextlib.contextmanager
def _group(command: Command, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as out:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=output.parent,
            env={**ENVIRON, "TMPDIR": str(output.parent)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_lines(outputs: Sequence[Path]) -> str:
    lines = [line for out in outputs for line in out.read_text(errors="replace").splitlines()[-8:]]
    return "\n".join(["", *lines])


def rate_in(output: str, pattern: str = r"(\d+) samples/s") -> float:
    """The rate that a peer's script printed."""
    found = re.search(pattern, output)
    if found is None:
        raise RunError(f"no samples/s in its output:\n{output[-2000:]}")
    return float(found[1])


def local_copies(scripts: Path, count: int = 2) -> Rate:
    """The ceiling: processes that share nothing, each with the whole table in its own memory."""
    script = scripts / "torch" / "ctr_local.py"
    commands: list[Command] = [[sys.executable, script, str(worker)] for worker in range(count)]
    return lambda folder: sum((rate_in(output) for output in run_together(commands, folder)), 0.0)


def ddp(scripts: Path) -> Rate:
    command: Command = [BIN / "torchrun", "--nproc_per_node", "2", scripts / "ddp" / "ctr_ddp.py", "n=120"]
    return lambda folder: rate_in(run(command, folder))


def torchrec(scripts: Path, python: Path, *, ranks: int = 2, sharding: str = "table_wise", steps: int = 120) -> Rate:
    launcher: Command = [python, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
    script: Command = [scripts / "torchrec" / "ctr_torchrec.py", sharding, "dim=12", f"n={steps}"]
    return lambda folder: rate_in(run(launcher + script, folder))


def _tensorflow(scripts: Path, python: Path) -> Rate:
    command: Command = [python, scripts / "tensorflow" / "ctr_ps.py", "k=10", "n=240"]
    return lambda folder: rate_in(run(command, folder))


def _paddle(config: str) -> Callable[[Path, Path], Rate]:
    # All samples over the time from the first worker's begin to the last one's end, as everywhere else.
    pattern = r"joint .* median (\d+)"

    def contestant(scripts: Path, python: Path) -> Rate:
        command: Command = [sys.executable, scripts / "paddle" / "bench_ctr.py", python, "1", config]
        return lambda folder: rate_in(run(command, folder), pattern)

    return contestant


ALWAYS: Mapping[str, Callable[[Path], Rate]] = {"no server, 2 processes": local_copies, "DDP, sync": ddp}
"""Those that need nothing but torch."""

PEERS: Mapping[str, Peer] = {
    "torchrec": Peer("torchrec", {"TorchRec, sync, dim 12": torchrec}),
    "tensorflow": Peer("tensorflow", {"TensorFlow PS, async": _tensorflow}),
    "paddle26": Peer("paddle", {"Paddle 2.6, async": _paddle("async:dataset"), "Paddle 2.6, geo": _paddle("geo:run")}),
    "paddle185": Peer(
        "paddle",
        {
            "Paddle 1.8, sync": _paddle("fluid/sync:run"),
            "Paddle 1.8, async": _paddle("fluid/async:run"),
            "Paddle 1.8, geo": _paddle("fluid/geo:run"),
        },
    ),
}


def version(module: str, python: Path) -> str:
    """The version of a peer's module, as it says itself."""
    program = f"import {module}; print({module}.__version__)"
    done = subprocess.run([python, "-c", program], env=ENVIRON, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise RunError(f"{python} cannot import {module}:\n{done.stderr[-2000:]}")
    return done.stdout.split()[-1]
