"""What `--chaos` asks for: faults, and when. `fleetrun` kills and stops by it, its processes harm their own calls.

    kill server every 5s; stop worker 3s at 20s; drop 1% rpc; delay 5% 200ms; disk-full at 30s

Times count from the job's start. A clause prints as it is written, so that a text can be handed on in parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NoReturn, cast

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options

GRAMMAR = (
    "kill server|worker|both|copy every|at TIME; stop server|worker|both|copy TIME every|at TIME; drop PERCENT rpc; "
    "repeat PERCENT rpc; delay PERCENT TIME; disk-full at TIME [for TIME]; torn-write every|at TIME "
    "(times such as 200ms, 5s, 1.5m)"
)
DISK_FULL_S = 5.0
"""How long a disk is full when nothing is said about it."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")


@dataclass(frozen=True)
class When:
    """Once, or again and again."""

    after_s: float
    is_repeated: bool

    def __str__(self) -> str:
        return f"{'every' if self.is_repeated else 'at'} {_time_text(self.after_s)}"

    def moment(self, number: int) -> float | None:
        """When it happens for the `number`-th time, from 1; None if it does not."""
        return self.after_s * number if self.is_repeated or number == 1 else None

    def num_due(self, now_s: float) -> int:
        """How often it should have happened by now."""
        times = int(now_s / self.after_s) if self.after_s else 1
        return max(0, times if self.is_repeated else min(1, times))


@dataclass(frozen=True)
class Strike:
    """A process is killed with SIGKILL, or stopped with SIGSTOP and let go on."""

    kind: Literal["kill", "stop"]
    who: Literal["server", "worker", "both", "copy"]
    when: When
    for_s: float = 0.0

    def __str__(self) -> str:
        pause = f" {_time_text(self.for_s)}" if self.kind == "stop" else ""
        return f"{self.kind} {self.who}{pause} {self.when}"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of which one process each is struck."""
        return ("server", "worker") if self.who == "both" else (self.who,)


@dataclass(frozen=True)
class CallFault:
    """A share of the calls to servers is lost, sent twice, or comes late."""

    kind: Literal["drop", "repeat", "delay"]
    share: float
    delay_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.share * 100:g}% {_time_text(self.delay_s) if self.kind == 'delay' else 'rpc'}"


@dataclass(frozen=True)
class DiskFull:
    """For a while servers cannot write."""

    at_s: float
    for_s: float = DISK_FULL_S

    def __str__(self) -> str:
        return f"disk-full at {_time_text(self.at_s)} for {_time_text(self.for_s)}"


@dataclass(frozen=True)
class TornWrite:
    """A server writes a part of a record, and is gone."""

    when: When

    def __str__(self) -> str:
        return f"torn-write {self.when}"


Clause = Strike | CallFault | DiskFull | TornWrite


@dataclass(frozen=True)
class Chaos:
    """Everything that was asked for, in the order it was written."""

    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.clauses))

    @classmethod
    def parse(cls, text: str, where: str) -> Chaos:
        """Read a text; UsageError of one line, which begins with `where`, if a word of it has no meaning."""
        clauses: list[Clause] = []
        for part in filter(None, (part.strip() for part in text.split(";"))):
            clause = _Reader(part, where).clause()
            if isinstance(clause, CallFault) and any(clause.kind == getattr(one, "kind", "") for one in clauses):
                raise UsageError(f"{where}: {clause.kind} stands there twice; write it once")
            clauses.append(clause)
        if not clauses:
            raise UsageError(f"{where} is empty; write some of: {GRAMMAR}")
        return cls(tuple(clauses))

    def not_yet(self, now_s: float) -> list[str]:
        """The clauses whose first moment is still to come."""
        timed = [one for one in self.clauses if isinstance(one, Strike | TornWrite)]
        return [str(one) for one in timed if not one.when.num_due(now_s)] + [
            str(one) for one in self.clauses if isinstance(one, DiskFull) and one.at_s > now_s
        ]

    @property
    def strikes(self) -> list[Strike]:
        """What the launcher does."""
        return [one for one in self.clauses if isinstance(one, Strike)]

    @property
    def call_faults(self) -> list[CallFault]:
        """What workers do to their calls."""
        return [one for one in self.clauses if isinstance(one, CallFault)]

    @property
    def disk_faults(self) -> list[DiskFull | TornWrite]:
        """What servers do to their files."""
        return [one for one in self.clauses if isinstance(one, DiskFull | TornWrite)]

    @property
    def ends_processes(self) -> bool:
        """Whether a process dies of it."""
        return any(isinstance(one, TornWrite) or getattr(one, "kind", "") == "kill" for one in self.clauses)

    def refuse_useless(self, options: Options) -> None:
        """UsageError for faults that could strike nobody."""
        needs_servers = [one for one in self.clauses if not isinstance(one, Strike) or one.roles != ("worker",)]
        if needs_servers and not options.is_server_job:
            raise UsageError(
                f"--chaos: {needs_servers[0]}: a collective job has no servers; kill and stop workers only"
            )
        of_copies = [strike for strike in self.strikes if strike.who == "copy"]
        if of_copies and options.standby is None:
            raise UsageError(f"--chaos: {of_copies[0]}: servers have no copies without --standby sync or async")
        if self.disk_faults and options.durable is None:
            raise UsageError(f"--chaos: {self.disk_faults[0]}: there is no journal to harm without --durable DIR")

    def without_torn_writes(self) -> Chaos:
        """The same for a server that was not chosen for them."""
        return Chaos(tuple(one for one in self.clauses if not isinstance(one, TornWrite)))


class _Reader:
    """Reads one clause, word by word."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._words = text.split()

    def clause(self) -> Clause:
        clause = self._begin()
        if self._words:
            self._refuse(self._words[0], "nothing more")
        return clause

    def _begin(self) -> Clause:
        match kind := self._one_of("kill", "stop", "drop", "repeat", "delay", "disk-full", "torn-write"):
            case "kill":
                return Strike("kill", self._who(), self._when())
            case "stop":
                who, for_s = self._who(), self._time(above_zero=True)
                return Strike("stop", who, self._when(), for_s)
            case "drop" | "repeat":
                share = self._percent()
                self._one_of("rpc")
                return CallFault("drop" if kind == "drop" else "repeat", share)
            case "delay":
                share, delay_s = self._percent(), self._time(above_zero=True)
                if self._words:
                    self._one_of("rpc")
                return CallFault("delay", share, delay_s)
            case "disk-full":
                self._one_of("at")
                at_s = self._time()
                if not self._words:
                    return DiskFull(at_s)
                self._one_of("for")
                return DiskFull(at_s, self._time(above_zero=True))
        return TornWrite(self._when())

    def _who(self) -> Literal["server", "worker", "both", "copy"]:
        return cast(Literal["server", "worker", "both", "copy"], self._one_of("server", "worker", "both", "copy"))

    def _when(self) -> When:
        is_repeated = self._one_of("every", "at") == "every"
        return When(self._time(above_zero=is_repeated), is_repeated)

    def _one_of(self, *choices: str) -> str:
        word = self._next()
        if word not in choices:
            self._refuse(word, " or ".join(choices))
        return word

    def _time(self, above_zero: bool = False) -> float:
        word = self._next()
        found = _TIME.fullmatch(word)
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if found is None or (above_zero and not seconds):
            self._refuse(word, f"a time{' above zero' if above_zero else ''}, such as 5s or 200ms")
        return seconds

    def _percent(self) -> float:
        word = self._next()
        found = _PERCENT.fullmatch(word)
        if found is None or not 0 < float(found[1]) <= 100:
            self._refuse(word, "a share of the calls, such as 1%")
        return float(found[1]) / 100

    def _next(self) -> str:
        return self._words.pop(0) if self._words else ""

    def _refuse(self, word: str, wanted: str) -> NoReturn:
        what = f"in {self._text!r} {word!r} stands where" if word else f"{self._text!r} ends where"
        raise UsageError(f"{self._where}: {what} {wanted} was expected; the grammar: {GRAMMAR}")


def _time_text(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 or not seconds else f"{seconds * 1000:g}ms"
