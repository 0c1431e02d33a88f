"""Small jobs in every order of events, and what the check finds where something is done wrong."""

from __future__ import annotations

import pytest

from modelled.checker import check
from modelled.sizes import MUTATIONS, SMALL
from modelled.system import Job


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SMALL)
def test_whatever_happens_each_change_is_made_once_and_nobody_is_stuck(name: str) -> None:
    found = check(Job(SMALL[name]))
    assert found.problem is None, f"\n{found}"
    assert found.num_states > 4_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_done_wrong_is_found_with_the_way_to_it(name: str) -> None:
    size, words = MUTATIONS[name]
    found = check(Job(size._replace(broken=name)))
    assert found.problem is not None
    assert words in found.problem
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.trace) > 5
    assert lines[0].endswith("after")
    assert lines[1].startswith("  1. worker")
