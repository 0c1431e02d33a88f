"""The manifest of a training checkpoint: tensors in spans, and everything else as JSON.

Each worker gives an account of what it wrote; whoever commits makes one manifest of all accounts. `shared` is state of
the job, `workers` has what each worker alone knew. This package does not look into either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fleet.checkpoint.files.fields import Fields, parse_json
from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.forms import Form
from fleet.checkpoint.folders.contents import Contents, refuse_doubles
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.state.spans import SpanPiece, check_cover
from fleet.errors import CheckpointError

# Where it stands among what else a checkpoint of servers has.
_INSIDE = "training"


@dataclass(frozen=True)
class Account:
    """What one worker says to whoever commits: the tensors it knows of, the files it wrote, its own state."""

    step: int
    forms: Mapping[str, Form]
    pieces: Sequence[SpanPiece]
    own: dict[str, Any]
    shared: dict[str, Any]
    """By name; an object that several workers give is put together from what each has of it."""

    def to_text(self) -> str:
        """The account as JSON, which `from_text` reads."""
        return json.dumps(
            {
                "step": self.step,
                "tensors": _forms_to_json(self.forms),
                "pieces": [piece.to_json() for piece in self.pieces],
                "own": self.own,
                "shared": self.shared,
            }
        )

    @classmethod
    def from_text(cls, text: str, where: str) -> Account:
        """The account that `to_text` wrote, checked; `where` names the sender in errors."""
        fields = parse_json(text, where)
        pieces = tuple(SpanPiece.from_json(item) for item in fields.objects("pieces"))
        return cls(fields.integer("step"), _read_forms(fields), pieces, fields.table("own"), fields.table("shared"))


@dataclass(frozen=True)
class TrainingManifest(
    Contents,
    file="manifest.json",
    what="training checkpoint",
    format="fleet-training-checkpoint",
    reader="fleet.Checkpoint in a collective job",
):
    """A training checkpoint: its tensors and their pieces, and what is no tensor."""

    STYLE: ClassVar[Mapping[str, Any]] = {"allow_nan": False}

    step: int
    forms: Mapping[str, Form]
    pieces: tuple[SpanPiece, ...]
    shared: dict[str, Any]
    workers: tuple[dict[str, Any], ...]
    """What each worker alone knew, by its index."""
    metric: float | None = None
    """How good it was, if somebody said so."""

    @classmethod
    def of(cls, accounts: Sequence[Account], metric: float | None = None) -> TrainingManifest:
        """The manifest of what all workers wrote, in their order; CheckpointError where they contradict each other."""
        forms: dict[str, Form] = {}
        shared: dict[str, Any] = {}
        for worker, account in enumerate(accounts):
            if account.step != accounts[0].step:
                raise CheckpointError(
                    f"worker {worker} saves step {account.step} while worker 0 saves step {accounts[0].step}; "
                    "save the same step on every worker"
                )
            for key, form in account.forms.items():
                if forms.setdefault(key, form) != form:
                    raise CheckpointError(f"{key!r} is {form} on worker {worker} and {forms[key]} on another")
            for name, value in account.shared.items():
                known = shared.get(name)
                shared[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
        pieces = tuple(piece for account in accounts for piece in account.pieces)
        return cls(accounts[0].step, forms, pieces, shared, tuple(account.own for account in accounts), metric)

    @classmethod
    def inside(cls, contents: Contents, where: str) -> TrainingManifest:
        """The manifest itself, or the one that stands in that of servers; CheckpointError if there is none in it."""
        if isinstance(contents, TrainingManifest):
            return contents
        if not isinstance(contents, Manifest) or _INSIDE not in contents.extra:
            raise CheckpointError(
                f"{where} has tables, but no state of a run: fleet.save_persistables() wrote it; fleet.load_model() "
                "loads it"
            )
        read = cls.read(Fields(contents.extra[_INSIDE], where))
        made = cls(**read, created=contents.created, fleet_version=contents.fleet_version, save=contents.save)
        made.check(where)
        return made

    def within(self, of_servers: Manifest) -> Manifest:
        """The manifest of what servers have written, with this one in it."""
        return replace(of_servers, extra={_INSIDE: self.to_json()}, others=self.files)

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The files of all pieces."""
        return tuple(piece.file for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(file.size_bytes for file in self.files)

    def check(self, where: str) -> None:
        if not self.workers:
            raise CheckpointError(f"{where} is damaged: nobody has written it")
        refuse_doubles((f"piece {file.name}" for file in self.files), where)
        check_cover(self.forms, self.pieces, where)

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.step,
            **({} if self.metric is None else {"metric": self.metric}),
            "shared": self.shared,
            "workers": list(self.workers),
            "tensors": _forms_to_json(self.forms),
            "pieces": [piece.to_json() for piece in self.pieces],
        }

    @classmethod
    def read(cls, fields: Fields) -> dict[str, Any]:
        return {
            "step": fields.integer("step"),
            "forms": _read_forms(fields),
            "pieces": tuple(SpanPiece.from_json(item) for item in fields.objects("pieces")),
            "shared": fields.table("shared"),
            "workers": tuple(item.value for item in fields.objects("workers")),
            "metric": fields.number("metric") if "metric" in fields.value else None,
        }


def _forms_to_json(forms: Mapping[str, Form]) -> dict[str, Any]:
    return {key: form.to_json() for key, form in forms.items()}


def _read_forms(fields: Fields) -> dict[str, Form]:
    found = fields.table("tensors")
    return {key: Form.from_json(Fields(value, f"{fields.where}, tensor {key!r}")) for key, value in found.items()}
