"""Decides who takes whose place in a job with copies: what is known of all machines -> the next orders.

It waits for nothing and talks to nobody, and the same knowledge leads to the same orders.

    a machine or a server is lost      its servers' copies are servers, its workers are started elsewhere
    a copy is lost, or not reached     its server has none; a new one is filled
    a copy is whole                    it is listed, and may take its server's place from then on

Each of the three is a term. It is written down by all machines that are left before anybody goes by it. The machines
that are left must be more than half of those that the last term counts on; just half are enough with its meeting point
among them, for then the other half is not. So two parts of a job that cannot reach each other never both go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from fleet.launch.standby.orders import MachineAccount, Orders, Post, ServerSeat, new_fills

VIEW = 1000
"""Terms of another meeting point begin at the next multiple, so that none has the number of one that was never used."""


class Keeper:
    """What the meeting point knows of the machines, and what it has told them."""

    def __init__(self, me: int, orders: Orders) -> None:
        """`me`: the machine of this meeting point."""
        self.orders = orders
        """What was told last."""
        self._me = me
        self._used = orders
        """The last that were used."""
        self._machines = set(orders.machines)
        """The ones that are still here."""
        self._accounts: dict[int, MachineAccount] = {}
        self._whys: list[str] = []
        self.end: str | None = None
        """Why the job cannot go on."""

    @classmethod
    def taking_over(cls, me: int, accounts: Mapping[int, MachineAccount], why: str) -> Keeper:
        """Go on with what the last meeting point has left, as those know who have come to this one."""
        newest = _newest(accounts)
        keeper = cls(me, newest)
        keeper._accounts = dict(accounts)
        for machine in set(newest.machines) - set(accounts):
            keeper.lose(machine, why if machine == newest.host else f"machine {machine} is gone")
        return keeper

    def hear(self, machine: int, account: MachineAccount) -> None:
        """Take note of what a machine says of itself."""
        self._accounts[machine] = account

    def lose(self, machine: int, why: str) -> None:
        """Take note that a machine is gone."""
        self._machines.discard(machine)
        self._accounts.pop(machine, None)
        self._whys.append(why)

    def decide(self) -> Orders | None:
        """What to tell all machines now, None if nothing is new; `end` says if there is no way to go on."""
        before = self.orders
        orders = replace(before, done=self._done())
        if not orders.is_used and self._have_all_written(orders):
            self._used = orders = replace(orders, is_used=True)
        orders = self._next_term(orders)
        orders = replace(orders, workers=self._posts(orders))
        orders = replace(orders, fills=new_fills(orders))
        if orders == before or self.end is not None:
            return None
        self.orders = replace(orders, serial=before.serial + 1)
        return self.orders

    def _have_all_written(self, orders: Orders) -> bool:
        accounts = [self._accounts.get(machine) for machine in self._machines]
        return all(account is not None and account.orders.number >= orders.number for account in accounts)

    def _done(self) -> tuple[int, ...]:
        found = {worker for account in self._accounts.values() for worker in account.done}
        return tuple(sorted(found | set(self.orders.done)))

    def _next_term(self, orders: Orders) -> Orders:
        """The orders with the next term, if it is time for one; nobody waits for a term that a loss makes obsolete."""
        lost = [server for server in range(len(orders.servers)) if self._is_lost(orders.servers[server])]
        machines = tuple(machine for machine in orders.machines if machine in self._machines)
        is_smaller = len(machines) < len(orders.machines)
        if not (orders.is_used or lost or is_smaller):
            return orders
        if is_smaller and not (_may_go_on(machines, orders) and _may_go_on(machines, self._used)):
            self.end = f"{'; '.join(self._whys)}; {too_few(machines, orders)}"
            return orders
        servers = list(orders.servers)
        copies = [self._copy(orders, server) for server in range(len(servers))]
        changed = {server for server in range(len(servers)) if copies[server] != orders.copies[server]}
        changed |= {server for server in range(len(servers)) if self._is_copyless(orders, server)}
        for server in lost:
            copy, copies[server] = orders.copies[server], None
            if copy is None or copy.machine not in machines or not self._runs(copy, server):
                self.end = f"{'; '.join([*self._whys, f'server {server} is lost, and had no whole copy'])}; {LOAD}"
                return orders
            servers[server] = copy
            changed.add(server)
        if not (is_smaller or changed):
            return orders
        number = orders.number + 1 if orders.host == self._me else (orders.number // VIEW + 1) * VIEW
        whys, self._whys = self._whys, []
        return replace(
            orders,
            number=number,
            is_used=False,
            host=self._me,
            machines=machines,
            servers=tuple(servers),
            copies=tuple(copies),
            since=tuple(number if server in changed else at for server, at in enumerate(orders.since)),
            why="; ".join(whys),
        )

    def _is_lost(self, seat: ServerSeat) -> bool:
        account = self._accounts.get(seat.machine)
        return seat.machine not in self._machines or (account is not None and seat.endpoint in account.gone)

    def _copy(self, orders: Orders, server: int) -> ServerSeat | None:
        """The copy that a server can count on."""
        listed = orders.copies[server]
        if listed is not None:
            is_alive = listed.machine in self._machines and self._runs(listed, server)
            return listed if is_alive and not self._is_copyless(orders, server) else None
        filler = orders.fills[server]
        account = None if filler is None else self._accounts.get(filler)
        if filler is None or account is None or server not in account.copies or self._is_copyless(orders, server):
            return None
        endpoint, whole_in = account.copies[server]
        is_whole = orders.is_used and whole_in == orders.number
        return ServerSeat(filler, endpoint) if is_whole and not self._is_lost(orders.servers[server]) else None

    def _runs(self, copy: ServerSeat, server: int) -> bool:
        account = self._accounts.get(copy.machine)
        return account is None or account.copies.get(server, ("", 0))[0] == copy.endpoint

    def _is_copyless(self, orders: Orders, server: int) -> bool:
        """Whether a server waits in vain for the copy that it has, or had when it was told last."""
        account = self._accounts.get(orders.servers[server].machine)
        return account is not None and account.copyless.get(server, -1) >= orders.since[server]

    def _posts(self, orders: Orders) -> tuple[Post, ...]:
        """Where workers are: those of a lost machine on the machine that has the fewest."""
        posts = list(orders.workers)
        num_there = Counter(post.machine for post in posts)
        for worker, post in enumerate(posts):
            if post.machine not in orders.machines and worker not in orders.done:
                machine = min(orders.machines, key=lambda one: (num_there[one], one))
                num_there[machine] += 1
                posts[worker] = Post(machine, post.life + 1)
        return tuple(posts)


def _may_go_on(left: Collection[int], orders: Orders) -> bool:
    """Whether these machines are enough of those that some orders count on, so that the others are not."""
    both, of = len(set(left) & set(orders.machines)), len(orders.machines)
    return 2 * both > of or (2 * both == of and orders.host in left)


LOAD = "load the last checkpoint into a job with an empty folder for --durable"


def too_few(machines: Collection[int], orders: Orders) -> str:
    """Why the machines that are left do not go on."""
    of = len(orders.machines)
    if of == 2:
        return (
            "the machine that is left cannot tell a dead one from a cut cable, and only that of the meeting point goes "
            "on alone; run the same command again on both, or with an empty folder on a new one"
        )
    return (
        f"{len(machines)} of {of} machines are left, and half or fewer do not go on, for the others might; "
        "run the same command again on all, or with an empty folder on new ones"
    )


def _newest(accounts: Mapping[int, MachineAccount]) -> Orders:
    newest = max((account.orders for account in accounts.values()), key=lambda one: (one.number, one.serial))
    is_used = newest.is_used or any(
        account.orders.is_used for account in accounts.values() if account.orders.number == newest.number
    )
    return replace(newest, is_used=is_used)
