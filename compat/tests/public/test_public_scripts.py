"""Public scripts of PaddlePaddle run unchanged and learn.

Their code is not here: FLEET_PUBLIC_SCRIPTS names the folder that has it. Where it is not set nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from public import data
from public.listing import Script, read_lists
from public.run import VARIABLE
from public.running import GRACE_S, run

FOLDER = os.environ.get(VARIABLE)


def _cases() -> list[object]:
    return [
        pytest.param(
            script,
            id=script.name,
            marks=pytest.mark.timeout(script.timeout_s + 3 * GRACE_S),
        )
        for script in read_lists()
    ]


@pytest.mark.skipif(not FOLDER, reason=f"{VARIABLE} does not name a folder of public scripts")
@pytest.mark.parametrize("script", _cases())
def test_a_public_script_learns(script: Script, tmp_path: Path) -> None:
    folder = Path(FOLDER or "")
    if missing := script.missing(folder):
        pytest.skip(f"{missing[0]} is not in {folder}")
    outcome = run(script, folder, tmp_path)
    assert outcome.passed, outcome.problem


def test_the_lists_are_well_formed_and_their_data_can_be_made() -> None:
    for script in read_lists():
        if script.data is not None:
            data.function(script.data)
