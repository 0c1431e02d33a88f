"""The seam between programs and whoever talks to other processes for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fleet.errors import NotReadyError, UsageError
from fleet_programs.jobs.remote import programs
from fleet_programs.remote import remote
from program_support.programs import building

ALONE = """
import sys
import fleet_programs as static
from fleet_programs.remote import remote
assert not any(name.startswith("fleet_programs.jobs") for name in sys.modules)
program = static.Program.parse_from_string("program random_seed=0\\nblock 0 {\\n  send() @remote\\n}\\n")
assert not any(name.startswith("fleet_programs.jobs") for name in sys.modules)
try:
    static.Executor().run(program)
except ValueError as error:
    print(error)
"""


def test_the_runtime_is_what_programs_are_given() -> None:
    assert remote() is programs


def test_without_anybody_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_programs.remote._load", None)
    with building() as built:
        built.main.global_block().append_op("send_barrier")
    with pytest.raises(
        NotReadyError, match="nobody here talks to other processes for a program; import fleet_programs"
    ):
        built.run({})


def test_a_program_without_a_job_says_so() -> None:
    with building() as built:
        built.main.global_block().append_op("recv", role="remote")
    with pytest.raises(UsageError, match="sends to servers, but does not say which; take it from DistributeTranspiler"):
        built.run({})


def test_programs_find_it_by_themselves_and_no_sooner_than_they_need_it() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert "does not say which" in done.stdout
