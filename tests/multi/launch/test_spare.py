"""An interpreter that is ready before it is needed becomes the worker that it is told to be."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from fleet.launch.planning.script import SPARE_COMMAND
from fleet.launch.processes.child import dying_with_launcher
from fleet.launch.processes.spare import Spare
from support.jobs import script

pytestmark = pytest.mark.timeout(120)

TELL = """
    import json, os, sys
    import beside
    print("torch._dynamo" in sys.modules, flush=True)
    print(json.dumps([sys.argv, __name__, os.environ.get("MINE"), "FLEET_OF_OTHERS" in os.environ, beside.here]))
    print("to stderr", file=sys.stderr)
    assert sys.stdin.read() == ""
    sys.exit(3)
"""


def test_a_spare_becomes_a_script_with_its_own_arguments_variables_and_log(tmp_path: Path) -> None:
    train = script(tmp_path, TELL)
    (tmp_path / "beside.py").write_text("here = 'beside the script'\n")
    log = tmp_path / "workerlog.2"
    spare = Spare(SPARE_COMMAND, {**os.environ, "FLEET_OF_OTHERS": "1"}, dying_with_launcher())
    environ = {name: value for name, value in os.environ.items() if name != "FLEET_OF_OTHERS"}
    process = spare.become((sys.executable, str(train), "--lr", "1"), {**environ, "MINE": "worker 2"}, log)
    assert process.wait(100) == 3
    has_torch, told, to_stderr = log.read_text().splitlines()
    assert has_torch == "True"
    assert json.loads(told) == [[str(train), "--lr", "1"], "__main__", "worker 2", False, "beside the script"]
    assert to_stderr == "to stderr"


def test_a_spare_that_is_not_needed_is_ended_and_one_that_has_ended_becomes_nothing(tmp_path: Path) -> None:
    idle = (sys.executable, "-c", "input()")
    unused = Spare(idle, os.environ, dying_with_launcher())
    unused.close()
    assert unused._process.returncode == -signal.SIGKILL
    ended = Spare(("true",), os.environ, dying_with_launcher())
    ended._process.wait()
    with pytest.raises(OSError, match="Broken pipe"):
        ended.become((sys.executable, "train.py"), {}, tmp_path / "log")
