"""Runs examples, each in a process of its own that is forked from one which has imported `paddle` already.

python forking.py    reads `{"name", "file", "cwd", "timeout_s"}` a line, answers `{"name", "code", "output"}` a line
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

TIMEOUT_S = 60.0
_LOOK_S = 0.01


@dataclass(frozen=True)
class Ran:
    """How one example ended; `code` is None where it did not."""

    name: str
    code: int | None
    output: str

    @property
    def reason(self) -> str:
        """The last line that says something."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return f"did not end; {lines[-1] if lines else ''}" if self.code is None else (lines[-1] if lines else "")


def run_all(
    given: Sequence[tuple[str, str]],
    env: dict[str, str],
    jobs: int,
    timeout_s: float = TIMEOUT_S,
    *,
    with_all: bool = True,
) -> list[Ran]:
    """Run examples, name and code, `jobs` at a time, in the order in which they were given.

    `with_all`: every module of `paddle` is imported once, which is worth it for more than a few.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-documented-") as made:
        waiting: SimpleQueue[_Parent] = SimpleQueue()
        parents = [_Parent(env, with_all) for _ in range(jobs)]
        for parent in parents:
            waiting.put(parent)

        def one(numbered: tuple[int, tuple[str, str]]) -> Ran:
            number, (name, code) = numbered
            cwd = Path(made) / str(number)
            cwd.mkdir()
            (cwd / "example.py").write_text(code)
            parent = waiting.get()
            try:
                return parent.ask(name, cwd, timeout_s)
            finally:
                waiting.put(parent)

        try:
            with ThreadPoolExecutor(jobs) as pool:
                return list(pool.map(one, enumerate(given)))
        finally:
            for parent in parents:
                parent.end()


class _Parent:
    """A process that has imported everything and forks."""

    def __init__(self, env: dict[str, str], with_all: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *["all"] * with_all],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )

    def ask(self, name: str, cwd: Path, timeout_s: float) -> Ran:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(json.dumps({"name": name, "cwd": str(cwd), "timeout_s": timeout_s}) + "\n")
        to.flush()
        line = back.readline()
        if not line:
            raise RuntimeError(f"the process that runs examples has ended, with {self._process.wait()}")
        return Ran(**json.loads(line))

    def end(self) -> None:
        """It ends when nobody can ask any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(timeout=60)


def _import_all() -> None:
    """So that no child imports what this process has."""
    from paddle import _alias

    _alias.load_all()
    for names in list(_alias.TABLES.values()):
        for name in names.table().keys() - set(names.live.split()):
            _alias.resolve(names.table()[name])


def _serve(questions: IO[str], answers: IO[str]) -> None:
    for line in questions:
        asked = json.loads(line)
        print(json.dumps(_forked(**asked)), file=answers, flush=True)


def _forked(name: str, cwd: str, timeout_s: float) -> dict[str, Any]:
    child = os.fork()
    if not child:
        _run_here(Path(cwd))
    deadline, status = time.monotonic() + timeout_s, None
    while status is None and time.monotonic() < deadline:
        found, said = os.waitpid(child, os.WNOHANG)
        status = said if found else None
        if status is None:
            time.sleep(_LOOK_S)
    with suppress(ProcessLookupError):  # whatever it has started and left
        os.killpg(child, signal.SIGKILL)
    code = None if status is None else os.waitstatus_to_exitcode(status)
    if status is None:
        os.waitpid(child, 0)
    output = (Path(cwd) / "output.txt").read_text(errors="replace")
    return {"name": name, "code": code, "output": output[-4000:]}


def _run_here(cwd: Path) -> None:
    """The child: it never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(cwd)
        out = os.open("output.txt", os.O_WRONLY | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (out, 1), (out, 2)):
            os.dup2(descriptor, target)
        sys.argv = ["example.py"]
        runpy.run_path(str(cwd / "example.py"), run_name="__main__")  # what it spawns looks for the file by its name
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path = [one for one in sys.path if Path(one or ".").resolve() != Path(__file__).parent]
    if sys.argv[1:] == ["all"]:
        _import_all()
    _serve(sys.stdin, os.fdopen(os.dup(1), "w"))
