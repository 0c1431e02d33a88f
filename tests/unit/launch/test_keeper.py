"""Who takes whose place when machines are lost: single steps, and every order of events in small jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from fleet.launch.standby.keeper import VIEW, Keeper
from fleet.launch.standby.orders import MachineAccount, Orders, Post, ServerSeat
from fleet.launch.standby.words import news


def first(num_machines: int = 3) -> Orders:
    """A server and a worker on each machine, the copies on the next one; machine 0 is the meeting point."""
    machines = tuple(range(num_machines))
    return Orders(
        number=1,
        is_used=True,
        serial=0,
        host=0,
        machines=machines,
        servers=tuple(ServerSeat(one, f"server-{one}") for one in machines),
        copies=tuple(ServerSeat((one + 1) % num_machines, f"copy-{one}") for one in machines),
        since=(1,) * num_machines,
        fills=(None,) * num_machines,
        workers=tuple(Post(one, 0) for one in machines),
    )


def account(orders: Orders, machine: int, whole: bool = False, **more: object) -> MachineAccount:
    """What a machine has that does what it is told, at once; with `whole` its new copies are."""
    copies = {
        server: (seat.endpoint, 0) for server, seat in enumerate(orders.copies) if seat and seat.machine == machine
    }
    for server, filler in enumerate(orders.fills):
        if filler == machine:
            copies[server] = (f"copy-{server}-since-{orders.since[server]}", orders.number if whole else 0)
    return MachineAccount(orders, **{"copies": copies, **more})  # type: ignore[arg-type]


def keeper_of(num_machines: int = 3) -> Keeper:
    keeper = Keeper(0, first(num_machines))
    for machine in range(num_machines):
        keeper.hear(machine, account(keeper.orders, machine))
    return keeper


def settle(keeper: Keeper, whole: bool = False) -> Orders:
    """Let every machine that is left write down and do what it is told, until nothing is new."""
    for _ in range(20):
        for machine in keeper.orders.machines:
            keeper.hear(machine, account(keeper.orders, machine, whole))
        if keeper.decide() is None:
            return keeper.orders
    raise AssertionError(f"there is always something new: {keeper.orders}")


def test_nothing_is_said_where_nothing_happens() -> None:
    assert keeper_of().decide() is None


def test_a_lost_machines_servers_go_on_in_their_copies_and_its_workers_elsewhere() -> None:
    keeper = keeper_of()
    keeper.lose(2, "machine 2 is gone")
    told = keeper.decide()
    assert told is not None
    assert not told.is_used
    assert told.term.servers == ("server-0", "server-1", "copy-2")
    assert told.term.copies == ("copy-0", "", "")
    assert told.workers == (Post(0, 0), Post(1, 0), Post(0, 1))
    assert told.fills == (None, 0, 1)
    keeper.hear(0, account(told, 0))
    assert keeper.decide() is None, "machine 1 has not written it down"
    keeper.hear(1, account(told, 1))
    used = keeper.decide()
    assert used is not None
    assert used.is_used
    assert used.number == told.number


def test_a_copy_is_listed_when_it_is_whole_in_the_term_that_holds() -> None:
    keeper = keeper_of()
    keeper.lose(2, "")
    orders = settle(keeper)
    assert orders.copies[1:] == (None, None)
    stale = replace(account(orders, 1), copies={0: ("copy-0", 0), 2: ("new", 1)})
    keeper.hear(1, stale)  # whole in term 1, when another server had this copy
    assert keeper.decide() is None
    keeper.hear(1, replace(stale, copies={0: ("copy-0", 0), 2: ("new", orders.number)}))
    told = keeper.decide()
    assert told is not None
    assert told.copies[2] == ServerSeat(1, "new")
    assert told.number == orders.number + 1
    assert told.fills[2] is None


def test_a_dead_copy_and_one_out_of_reach_are_not_listed_any_more() -> None:
    for said in (replace(account(first(), 1), copies={}), replace(account(first(), 0), copyless={0: 1})):
        keeper = keeper_of()
        keeper.hear(1 if not said.copies else 0, said)
        told = keeper.decide()
        assert told is not None
        assert told.copies[0] is None
        assert told.since[0] == told.number
        assert told.fills[0] == 1
        assert told.servers == first().servers


def test_a_server_that_waits_for_a_copy_which_was_never_listed_gets_a_term_of_its_own() -> None:
    keeper = keeper_of()
    keeper.lose(2, "")
    orders = settle(keeper)
    keeper.hear(1, account(orders, 1, copyless={1: orders.number}))
    told = keeper.decide()
    assert told is not None
    assert told.number == orders.number + 1
    assert told.term.copies == orders.term.copies
    assert told.since[1] == told.number
    keeper.hear(1, account(told, 1, copyless={1: orders.number}))  # what it said then has been heard
    keeper.hear(0, account(told, 0))
    used = keeper.decide()
    assert used is not None
    assert used.is_used
    assert used.number == told.number


def test_a_server_that_is_not_started_again_is_replaced_by_its_copy() -> None:
    keeper = keeper_of()
    keeper.hear(1, account(first(), 1, gone=("server-1",)))
    told = keeper.decide()
    assert told is not None
    assert told.servers[1] == ServerSeat(2, "copy-1")
    assert told.machines == (0, 1, 2)


@pytest.mark.parametrize("machine", [1, 2])
def test_rows_without_a_whole_copy_end_the_job(machine: int) -> None:
    keeper = keeper_of()
    keeper.lose(2, "machine 2 is gone")
    settle(keeper)
    keeper.hear(1, replace(account(keeper.orders, 1), gone=("server-1",)))
    assert keeper.decide() is None
    assert keeper.end is not None
    assert "server 1 is lost, and had no whole copy; load the last checkpoint" in keeper.end


def test_machines_are_lost_one_after_the_other_as_long_as_copies_are_whole() -> None:
    keeper = keeper_of(4)
    for machine in (3, 2, 1):
        keeper.lose(machine, f"machine {machine} is gone")
        settle(keeper, whole=True)
        assert keeper.end is None
    assert {seat.machine for seat in keeper.orders.servers} == {0}
    assert keeper.orders.fills == (None,) * 4
    assert keeper.orders.copies == (None,) * 4
    lives = [post.life for post in keeper.orders.workers]
    assert lives[0] == 0
    assert min(lives[1:]) > 0


def test_a_second_loss_does_not_wait_for_the_first_term() -> None:
    keeper = keeper_of(5)
    keeper.lose(4, "")
    one = keeper.decide()
    keeper.lose(2, "")
    other = keeper.decide()
    assert one is not None
    assert other is not None
    assert other.number == one.number + 1
    assert keeper.end is None
    assert other.machines == (0, 1, 3)
    assert other.term.servers == ("server-0", "server-1", "copy-2", "server-3", "copy-4")


def test_half_of_the_machines_go_on_with_their_meeting_point_only() -> None:
    for lost, goes_on in (((2, 3), True), ((1, 2, 3), False)):
        keeper = keeper_of(4)
        for machine in lost:
            keeper.lose(machine, f"machine {machine} is gone")
        keeper.decide()
        assert (keeper.end is None) == goes_on or "no whole copy" in (keeper.end or "")
    accounts = {machine: account(first(4), machine) for machine in (1, 2)}
    keeper = Keeper.taking_over(1, accounts, "machine 0 is gone")
    keeper.decide()
    assert keeper.end is not None
    assert "2 of 4 machines are left" in keeper.end


def test_a_new_meeting_point_begins_with_the_newest_term_that_anybody_has_written() -> None:
    keeper = keeper_of(5)
    keeper.lose(3, "")
    pending = keeper.decide()
    assert pending is not None
    accounts = {1: account(first(5), 1), 2: account(pending, 2), 4: account(first(5), 4)}
    after = Keeper.taking_over(1, accounts, "machine 0 is gone")
    told = after.decide()
    assert told is not None
    assert told.number == VIEW
    assert told.host == 1
    assert told.machines == (1, 2, 4)
    assert told.term.servers == ("copy-0", "server-1", "server-2", "copy-3", "server-4")


def test_finished_workers_are_not_started_again() -> None:
    keeper = keeper_of()
    keeper.hear(2, account(first(), 2, done=(2,)))
    keeper.decide()
    keeper.lose(2, "")
    told = keeper.decide()
    assert told is not None
    assert told.workers == first().workers
    assert told.done == (2,)
    keeper.hear(0, account(told, 0, done=(0,)))
    keeper.hear(1, account(told, 1, done=(1,)))
    keeper.decide()
    assert keeper.orders.is_over


def test_what_is_told_survives_the_way() -> None:
    orders = settle(keeper_of())
    assert Orders.from_json(orders.to_json()) == orders
    said = account(orders, 1, copyless={1: 3}, gone=("x",), done=(1,))
    assert MachineAccount.from_json(said.to_json()) == said


def test_every_machine_says_what_has_become_of_the_job() -> None:
    keeper = keeper_of()
    keeper.lose(2, "machine 2 is gone: it ended")
    orders = settle(keeper)
    lines = [line for _, line in news(first(), orders, ("a", "b", "c"))]
    assert lines == [
        "machine 2 is gone: it ended: server 2 goes on on machine 0 (a), worker 2 is started on machine 0 (a)",
        "server 1 has no copy: a new one is filled on machine 0 (a)",
        "server 2 has no copy: a new one is filled on machine 1 (b)",
    ]
    whole = settle(keeper, whole=True)
    assert [line for _, line in news(orders, whole, ("a", "b", "c"))] == [
        "server 1 has a copy on machine 0 (a)",
        "server 2 has a copy on machine 1 (b)",
    ]


# A small world: machines that write down what they are told, links that break, and who takes over then.


class World:
    """Some machines with their launchers; what one says to the meeting point arrives later, in order, or never."""

    def __init__(self, num_machines: int) -> None:
        self.orders = [first(num_machines)] * num_machines
        """What each machine has written down."""
        self.used: list[Orders] = [first(num_machines)] * num_machines
        self.has_complained = False
        self.keepers: dict[int, Keeper] = {}
        self.at = dict.fromkeys(range(num_machines), 0)
        """Where the meeting point is to which each living machine is connected."""
        self.down: dict[int, deque[Orders]] = {machine: deque() for machine in self.at}
        self.up: dict[int, deque[MachineAccount]] = {machine: deque() for machine in self.at}
        keeper = self.keepers[0] = Keeper(0, first(num_machines))
        for machine in self.at:
            keeper.hear(machine, account(keeper.orders, machine))

    def key(self) -> str:
        keepers = {
            machine: (one.orders, sorted(one._machines), one.end, sorted(one._accounts.items()))
            for machine, one in self.keepers.items()
        }
        return repr((self.has_complained, self.orders, self.used, keepers, self.at, self.down, self.up))

    def copy(self) -> World:
        other = object.__new__(World)
        other.orders, other.used, other.at = list(self.orders), list(self.used), dict(self.at)
        other.down = {machine: deque(queue) for machine, queue in self.down.items()}
        other.up = {machine: deque(queue) for machine, queue in self.up.items()}
        other.keepers, other.has_complained = {}, self.has_complained
        for machine, keeper in self.keepers.items():
            new = other.keepers[machine] = object.__new__(Keeper)
            new.__dict__.update(keeper.__dict__)
            new._machines, new._accounts, new._whys = set(keeper._machines), dict(keeper._accounts), []
        return other

    def moves(self) -> list[tuple[Callable[[World, Any], None], Any]]:
        found: list[tuple[Callable[[World, Any], None], Any]] = []
        found += [(World._hear, machine) for machine in self.at if self.down[machine]]
        found += [(World._say, machine) for machine in self.at if self.up[machine]]
        found += [(World._burn, machine) for machine in self.at]
        if not self.has_complained:
            found += [(World._complain, machine) for machine in self.at]
        for host in self.keepers:
            guests = [machine for machine, at in self.at.items() if at == host != machine]
            found += [(World._cut, part) for num in range(len(guests)) for part in combinations(guests, num + 1)]
        return found

    def _hear(self, machine: int) -> None:
        orders = self.down[machine].popleft()
        if orders.is_newer(self.orders[machine]):
            self.orders[machine] = orders
            if orders.is_used:
                self.used[machine] = orders
        self.up[machine].append(account(self.orders[machine], machine, whole=True))

    def _complain(self, machine: int) -> None:
        """A server cannot reach its copy; once is enough to see what comes of it."""
        self.has_complained = True
        orders = self.orders[machine]
        mine = {server: orders.number for server, seat in enumerate(orders.servers) if seat.machine == machine}
        self.up[machine].append(account(orders, machine, whole=True, copyless=mine))

    def _say(self, machine: int) -> None:
        host = self.at[machine]
        self.keepers[host].hear(machine, self.up[machine].popleft())
        self._direct(host)

    def _direct(self, host: int) -> None:
        keeper = self.keepers[host]
        orders = keeper.decide()
        if keeper.end is not None:
            del self.keepers[host]
            for machine in [one for one, at in self.at.items() if at == host]:
                del self.at[machine]
        elif orders is not None:
            for machine in [one for one, at in self.at.items() if at == host]:
                self.down[machine].append(orders)

    def _cut(self, part: tuple[int, ...]) -> None:
        """Some machines reach each other, but not their meeting point, and it does not reach them."""
        host = self.at[part[0]]
        for machine in part:
            del self.at[machine]
        for machine in part:
            if host in self.keepers:
                self.keepers[host].lose(machine, "")
                self._direct(host)
        self._take_over(list(part), host)

    def _burn(self, machine: int) -> None:
        host = self.at.pop(machine)
        if host != machine:
            self.keepers[host].lose(machine, "")
            self._direct(host)
            return
        left = [one for one, at in self.at.items() if at == machine]
        del self.keepers[machine]
        for one in left:
            del self.at[one]
        self._take_over(left, machine)

    def _take_over(self, left: list[int], lost: int) -> None:
        """Those that have lost a meeting point meet at the first of them."""
        left = [one for one in left if one != lost]
        if not left:
            return
        host = left[0]
        accounts = {one: account(self.orders[one], one) for one in left}
        self.keepers[host] = Keeper.taking_over(host, accounts, "")
        for one in left:
            self.at[one] = host
            self.down[one].clear()
            self.up[one].clear()
        self._direct(host)

    def check(self) -> None:
        """No term is two things, and only one part of the job uses new ones."""
        by_number: dict[int, set[tuple[object, ...]]] = {}
        for one in (*self.orders, *self.used):
            by_number.setdefault(one.number, set()).add((one.servers, one.copies, one.machines))
        for number, meanings in by_number.items():
            assert len({meaning[0] for meaning in meanings}) == 1, f"term {number} is {meanings}"
        for machine, host in self.at.items():
            mine = self.used[machine]
            newer = [
                self.used[one] for one, at in self.at.items() if at != host and self.used[one].number > mine.number
            ]
            for other in newer:
                assert not _may_acknowledge(mine, other), f"machine {machine} uses {mine}, another part {other}"


def _may_acknowledge(old: Orders, new: Orders) -> bool:
    """Whether a server of an old term could still acknowledge pushes, though another has its place.

    It cannot while it needs a copy that goes by the newer term, or if it is the same process.
    """
    return any(old.copies[server] is None and seat != new.servers[server] for server, seat in enumerate(old.servers))


def explore(num_machines: int, depth: int, most: int) -> int:
    """Do everything that can happen, in every order, up to so many events; returns the number of states."""
    seen: set[str] = set()
    ahead = deque([(World(num_machines), 0)])
    while ahead and len(seen) < most:
        world, far = ahead.popleft()
        if far == depth:
            continue
        for move, who in world.moves():
            after = world.copy()
            move(after, who)
            after.check()
            if (key := after.key()) not in seen:
                seen.add(key)
                ahead.append((after, far + 1))
    return len(seen)


@pytest.mark.parametrize(("num_machines", "depth"), [(2, 8), (3, 30), (4, 6), (5, 4)])
def test_two_parts_of_a_job_never_both_go_on(num_machines: int, depth: int) -> None:
    assert explore(num_machines, depth, most=1_500) > 8


@pytest.mark.exhaustive
@pytest.mark.parametrize(("num_machines", "depth"), [(2, 30), (3, 30), (4, 9), (5, 7)])
def test_two_parts_of_a_job_never_both_go_on_at_length(num_machines: int, depth: int) -> None:
    assert explore(num_machines, depth, most=40_000) > 8
