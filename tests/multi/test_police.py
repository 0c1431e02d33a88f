"""What `conftest.py` sees of the processes that a test has left."""

from __future__ import annotations

import os
import subprocess

from support.processes import MARK, marked_processes, newest_process


def test_a_process_is_found_by_its_mark_among_those_that_are_new() -> None:
    before = newest_process()
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "a test of the police"}) as process:
        try:
            assert marked_processes("a test of the police", before) == {process.pid: "sleep 60 "}
            assert marked_processes("a test of the police") == {process.pid: "sleep 60 "}
            assert not marked_processes("a test of the police", newest_process())
            assert not marked_processes("another mark", before)
        finally:
            process.kill()
