"""Contestants that stay alive between their turns: for work that takes minutes to compile and a second to measure.

A contestant is a script that prints `ANSWER` and a JSON object once it is warm, and again for every line on its stdin.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from peers import Command, RunError
from rich.console import Console

LIMIT_S = 300.0
Figures = dict[str, Any]


class Contestant:
    """A process that measures when it is told to."""

    def __init__(self, name: str, command: Command, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._log = folder / f"{name}.err"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # what was still to be said to a process that ended by itself
                stream.close()

    def answer(self) -> Figures:
        """The next figures it gives; `RunError` when it ends or stays silent."""
        stream = self._process.stdout
        assert stream is not None
        watchdog = threading.Timer(LIMIT_S, self._process.kill)
        watchdog.start()
        try:
            for line in stream:
                if line.startswith("ANSWER "):
                    found: Figures = json.loads(line.removeprefix("ANSWER "))
                    return found
        finally:
            watchdog.cancel()
        lines = self._log.read_text(errors="replace").splitlines()[-30:]
        raise RunError("\n".join([f"ended, or was silent for {LIMIT_S:.0f} s; its last words:", *lines]))

    def measure(self) -> Figures:
        stream = self._process.stdin
        assert stream is not None
        with suppress(BrokenPipeError):  # it has ended; `answer` tells what it said last
            stream.write("go\n")
            stream.flush()
        return self.answer()


def take_turns(
    commands: Mapping[str, Command], rounds: int, folder: Path, limit_s: float = math.inf
) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """Figures by contestant and round, and why those failed that did; they all get warm at the same time.

    No round begins after `limit_s`.
    """
    console = Console(stderr=True)
    begun = time.monotonic()
    found: dict[str, list[Figures]] = {name: [] for name in commands}
    failures: dict[str, str] = {}

    def ask(contestant: Contestant, question: Callable[[], Figures]) -> Figures | None:
        if contestant.name in failures:
            return None
        try:
            return question()
        except RunError as failure:
            failures[contestant.name] = str(failure)
            console.print(f"{contestant.name} failed: {failure}", markup=False)
            return None

    with ExitStack() as stack:
        contestants = [stack.enter_context(Contestant(name, command, folder)) for name, command in commands.items()]
        for contestant in contestants:
            if warm := ask(contestant, contestant.answer):
                console.print(f"{contestant.name}: warm after {warm['warm_up_s']:.0f} s")
        for turn in range(rounds):
            if time.monotonic() - begun > limit_s:
                console.print(f"{turn} of {rounds} rounds within {limit_s:.0f} s")
                break
            for contestant in random.Random(turn).sample(contestants, len(contestants)):
                if figures := ask(contestant, contestant.measure):
                    found[contestant.name].append(figures)
                    console.print(f"round {turn + 1} of {rounds}: {contestant.name}: {figures['items_per_s']:,.1f}/s")
    return found, failures
