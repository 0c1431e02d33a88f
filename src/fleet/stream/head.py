"""What a stream is of, and the newest base to begin from: `stream.json`, written whole and last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.checkpoint.files.fields import Fields, Formed, parse_json
from fleet.checkpoint.folders.inference import Unseen
from fleet.errors import CheckpointError, StreamError

FORMAT = "fleet stream 1"


@dataclass(frozen=True)
class TableHead(Formed):
    """The rows of one table."""

    width: int
    unseen: Unseen = field(default_factory=Unseen)
    """What a key without a row reads as."""


@dataclass(frozen=True)
class DenseHead(Formed):
    """One dense parameter of the model."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class StreamBase(Formed):
    """An inference copy, and the batches that need not be applied to it.

    It has everything that the batches up to `numbers` have, and may have some of what later ones bring: it equals the
    tables when those have been applied.
    """

    folder: str
    """Below the folder of bases; where it was opened by a follower, its whole path."""
    numbers: tuple[int, ...]
    """The last batch of each shard that is in it."""


@dataclass(frozen=True)
class StreamHead(Formed):
    """What `stream.json` says."""

    stream: str
    """A name that changes when the number of servers does, or another run of the job begins."""
    num_shards: int
    tables: Mapping[str, TableHead]
    dense: Mapping[str, DenseHead]
    """The dense parameters, of which batches have flattened blocks."""
    every_s: float
    """A batch is due so often, where something has changed; an empty one each five seconds at least."""
    base: StreamBase
    forgotten: int = 0
    """How often rows were forgotten before the base was written: whatever is older than it has gone."""
    LATER = ("forgotten",)

    @property
    def fingerprint(self) -> dict[str, object]:
        """What must be equal for one stream to take the place of another: the model."""
        return {name: one for name, one in self.to_json().items() if name in ("tables", "dense")}

    def to_text(self) -> str:
        """What is written."""
        return json.dumps({"format": FORMAT, **self.to_json()}, indent=1)

    @classmethod
    def from_text(cls, text: str | bytes, where: str) -> StreamHead:
        """Read what was written; StreamError if this is no such text."""
        try:
            fields = parse_json(text, where)
            if (found := fields.value.get("format")) != FORMAT:
                raise StreamError(
                    f"{where} has the format {found!r:.60}, known here is {FORMAT!r}; update what follows"
                )
            head = cls.from_json(fields)
            is_odd = any("/" in name or name in ("", ".", "..") for name in (head.stream, head.base.folder))
            if len(head.base.numbers) != head.num_shards or is_odd:
                raise CheckpointError(f"{where} is damaged: {head.num_shards} shards, {head.stream!r}, {head.base}")
        except CheckpointError as error:
            raise StreamError(f"{error}; have the job publish elsewhere, or remove that file") from None
        return head

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.integer("num_shards", 1, 65536)
