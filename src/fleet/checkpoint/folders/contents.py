"""What the last file of a folder says: a checkpoint's manifest, or the index of an inference copy."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from fleet._version import __version__
from fleet.checkpoint.files.fields import Fields
from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.identity import SAVE
from fleet.checkpoint.folders.seal import SEAL, require_seal, seal, unseal
from fleet.errors import CheckpointError

log = logging.getLogger(__name__)

# The first version has no seal and no id. It is told from a damaged one of the next by what else that has.
UNSEALED = 1


@dataclass(frozen=True, kw_only=True)
class Contents(ABC):
    """Frozen data with a form in JSON; a subclass says what it holds, in which files, and how that is read."""

    FILE: ClassVar[str]
    WHAT: ClassVar[str]
    FORMAT: ClassVar[str]
    READER: ClassVar[str]
    """The call that reads it."""
    KINDS: ClassVar[list[type[Contents]]] = []
    """Every kind that can be written."""
    FORMAT_VERSION: ClassVar[int] = 2
    STYLE: ClassVar[Mapping[str, Any]] = {"indent": 1}
    """How `json.dumps` writes it."""

    def __init_subclass__(cls, file: str = "", what: str = "", format: str = "", reader: str = "") -> None:
        """A subclass that can be written names its file, what it is, its format, and the call that reads it."""
        super().__init_subclass__()
        if file:
            cls.FILE, cls.WHAT, cls.FORMAT, cls.READER = file, what, format, reader
            Contents.KINDS.append(cls)

    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    fleet_version: str = __version__
    save: str = ""
    """The id of the save; that of a commit is given to it by the commit."""

    @classmethod
    def described(cls) -> str:
        """`an inference copy, which fleet.load_inference_model() reads`."""
        return f"{'an' if cls.WHAT[0] in 'aeiou' else 'a'} {cls.WHAT}, which {cls.READER} reads"

    @property
    @abstractmethod
    def files(self) -> tuple[FileInfo, ...]:
        """Every file that belongs to it."""

    @abstractmethod
    def check(self, where: str) -> None:
        """Raise a CheckpointError that names the first thing missing or doubled."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What it holds."""

    @classmethod
    @abstractmethod
    def read(cls, fields: Fields) -> dict[str, Any]:
        """The arguments of its class by what `to_json` gave."""

    def to_text(self) -> str:
        """The last file, which ends with its checksum."""
        head = {"format": self.FORMAT, "format_version": self.FORMAT_VERSION, SAVE: self.save}
        about = {"fleet_version": self.fleet_version, "created": self.created}
        return seal({**head, **about, **self.to_json()}, self.STYLE)

    @classmethod
    def from_text(cls, text: str | bytes, where: str) -> Self:
        """What that file says, checked; CheckpointError where it is damaged, not ours or newer than we are."""
        fields, is_sealed = unseal(text.encode() if isinstance(text, str) else text, where)
        is_old = cls._check_format(fields, is_sealed)
        about = {name: fields.text(name) for name in ("created", "fleet_version")}
        made = cls(**cls.read(fields), **about, save="" if is_old else fields.text(SAVE))
        made.check(where)
        return made

    @classmethod
    def _check_format(cls, fields: Fields, is_sealed: bool) -> bool:
        """Whether it is of the version without checksums of its own."""
        for kind in Contents.KINDS:
            if kind is not cls and fields.value.get("format") == kind.FORMAT:
                raise CheckpointError(f"{fields.where} belongs to {kind.described()}")
        if fields.value.get("format") != cls.FORMAT:
            raise CheckpointError(f"{fields.where} is not Fleet's: its format is not {cls.FORMAT!r}")
        found = fields.integer("format_version")
        if found == UNSEALED:
            if is_sealed or not fields.value.keys().isdisjoint({SAVE, SEAL}):
                raise CheckpointError(f"{fields.where} is damaged: version {found} of its format has no {SEAL!r}")
            log.debug("%s is of a version without a checksum of its own: only its files are checked", fields.where)
            return True
        if found != cls.FORMAT_VERSION:
            writer = fields.value.get("fleet_version", "unknown")
            raise CheckpointError(
                f"{fields.where} has format version {found}, written by fleet {writer}; this fleet {__version__} reads "
                f"versions {UNSEALED} to {cls.FORMAT_VERSION}; use the fleet that wrote it"
            )
        require_seal(fields, is_sealed)
        return False


@dataclass(frozen=True)
class OfServers(Contents):
    """What the servers of a job have saved."""

    version: int
    """Steps, or pushes, that the saved state has seen."""
    num_servers: int
    steps: tuple[int, ...] = field(default=(), kw_only=True)
    """How many steps of each worker are in it, since the servers were started; empty: nobody has said."""
    versions: tuple[int, ...] = field(default=(), kw_only=True)
    """The version of each server; they are equal if all are of one moment."""

    def to_json(self) -> dict[str, Any]:
        said = {name: list(getattr(self, name)) for name in ("steps", "versions") if getattr(self, name)}
        return {"version": self.version, "num_servers": self.num_servers, **said}

    @classmethod
    def read(cls, fields: Fields) -> dict[str, Any]:
        said: dict[str, Any] = {name: fields.integers(name) for name in ("steps", "versions") if name in fields.value}
        return {"version": fields.integer("version"), "num_servers": fields.integer("num_servers", 1), **said}


def refuse_doubles(names: Iterable[str], where: str) -> None:
    """CheckpointError for the first name that stands there twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise CheckpointError(f"{where} names {name} {count} times")


def refuse_gaps(spans: Iterable[tuple[int, int]], size: int, where: str, of: str) -> None:
    """CheckpointError for the first of `size` elements that spans, in their order, miss or double."""
    at = 0
    for begin, end in (*spans, (size, size)):
        if begin != at:
            what = "misses" if begin > at else "doubles"
            raise CheckpointError(f"{where} {what} elements {min(at, begin)} to {max(at, begin) - 1} of {of}")
        at = end
