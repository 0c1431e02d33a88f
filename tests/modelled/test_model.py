"""Small jobs in every order of events, and what the check finds where something is done wrong."""

from __future__ import annotations

import pytest

from modelled.checker import check
from modelled.sizes import MUTATIONS, SMALL
from modelled.system import Job


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SMALL)
def test_whatever_happens_each_change_is_made_once_and_nobody_is_stuck(name: str) -> None:
    found, reduced = check(Job(SMALL[name])), check(Job(SMALL[name], is_reduced=True))
    assert found.problem is None, f"\n{found}"
    assert reduced.problem is None, f"\n{reduced}"
    assert found.num_states > reduced.num_states > 1_000
    assert found.ends == reduced.ends, "fewer orders come to other ends"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", [name for name in MUTATIONS if name != "promote a copy that is not listed"])
def test_fewer_orders_find_what_is_done_wrong_as_well(name: str) -> None:
    size, _ = MUTATIONS[name]
    assert check(Job(size._replace(broken=name), is_reduced=True)).problem is not None


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_done_wrong_is_found_with_the_way_to_it(name: str) -> None:
    size, words = MUTATIONS[name]
    found = check(Job(size._replace(broken=name)))
    assert found.problem is not None
    assert any(one in found.problem for one in words.split("|"))
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.trace) > 5
    assert lines[0].endswith("after")
    assert lines[1].startswith("  1. worker")
