"""A process that is told to save and stop: what it does when nothing can be saved, and what its children do."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.jobs import clean_environ

BEGIN = """
import os, signal, sys, time
from fleet.job.stopping import stopping
from fleet.observe.metrics.steps import steps
"""
IN_VAIN = """
stopping.begin(lambda: False)
os.kill(os.getpid(), {number})
for _ in steps.data(iter(range(1000))):
    time.sleep(0.1)
"""
SAVED = """
stopping.begin(lambda: print("saved", flush=True) is None)
for number in steps.data(iter(range(1000))):
    os.kill(os.getpid(), signal.SIGUSR1)
    print("in step", number, flush=True)
"""
FORKED = """
stopping.begin(lambda: True)
if not (pid := os.fork()):
    os.kill(os.getpid(), signal.SIGUSR1)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
OWN = """
signal.signal(signal.SIGUSR1, lambda *_: print("mine", flush=True))
stopping.begin(lambda: True)
os.kill(os.getpid(), signal.SIGUSR1)
stopping.end()
"""


def run(script: str, **environ: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", BEGIN + script]
    done = subprocess.run(command, env=clean_environ() | environ, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_what_cannot_be_saved_within_the_grace_time_ends_anyway(number: int) -> None:
    code, _, err = run(IN_VAIN.format(number=int(number)), FLEET_GRACE_S="0.3")
    assert code == 128 + number
    assert f"told by {signal.Signals(number).name} to stop: nothing could be saved within 0.3 s" in err


def test_the_present_step_is_done_and_then_all_is_saved() -> None:
    assert run(SAVED)[:2] == (75, "in step 0\nsaved\n")


def test_a_forked_child_is_not_meant() -> None:
    assert run(FORKED)[:2] == (0, "3\n")


def test_the_scripts_own_handler_stays() -> None:
    assert run(OWN)[:2] == (0, "mine\n")
