"""How many machines a job may have, and who sits where."""

from __future__ import annotations

import socket

import pytest

from fleet.errors import UsageError
from fleet.launch.lobby import Guest
from fleet.launch.options import Nodes
from fleet.launch.seats import choose, seat


@pytest.mark.parametrize("text", ["1", "2", "1:2", "2:16"])
def test_nodes_print_as_they_were_written(text: str) -> None:
    assert str(Nodes.parse(text)) == text


def test_a_range_of_one_number_is_that_number() -> None:
    assert Nodes.parse("3:3") == Nodes.parse("3")
    assert not Nodes.parse("3:3").is_range


@pytest.mark.parametrize("text", ["", ":", "1:", ":2", "1:2:3", "-1", "1.5", "two", "0", "0:2", "3:2", "\uff11"])
def test_what_is_no_number_of_machines_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--nnodes"):
        Nodes.parse(text)


@pytest.fixture
def guests() -> list[Guest]:
    """Four who came in this order and asked for these ranks."""
    with socket.socket() as unused:
        return [Guest(unused, "", rank, None) for rank in (None, 2, None, 2)]


def test_those_who_came_first_take_part_and_no_rank_is_given_twice(guests: list[Guest]) -> None:
    assert choose(guests, 4) == guests[:3]
    assert choose(guests[1:], 4) == guests[1:3]
    assert choose(guests, 2) == guests[:2]


def test_the_order_is_by_rank_then_by_arrival_and_has_no_gaps(guests: list[Guest]) -> None:
    assert seat(guests[:3], 3) == [guests[0], guests[2], guests[1]]
    assert seat(guests[1:3], 4) == [guests[2], guests[1]]
    assert seat([guests[1]], 4) == [guests[1]]
