"""Saves that build on the one before: what servers are asked for, and what the manifest says about its parent."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.checkpoint import ChainLink, ChangedPiece, Parent, Piece, parent_at, read_chain
from fleet.checkpoint.files.identity import save_id
from fleet.errors import CheckpointError
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client

_log = logging.getLogger(__name__)


class Increment:
    """A save of a chain: an increment where the servers know what changed since the newest save there, else whole."""

    def __init__(
        self, client: Client, chain: str | os.PathLike[str], writing: Path, newest: Path | None, most: int | None = None
    ) -> None:
        """`chain`: the folder whose saves build on each other; `most`: how many, then a whole one comes."""
        self._chain = os.path.realpath(chain)
        self._newest = None if newest is None else self._usable(client, newest, most)
        parent = "" if self._newest is None else self._newest.manifest.save
        self.tracked = ps_pb2.Tracked(chain=self._chain, mark=save_id(writing), parent=parent)

    def _usable(self, client: Client, newest: Path, most: int | None) -> ChainLink | None:
        """The save that this one may build on."""
        try:
            chain = read_chain(newest)
        except CheckpointError as error:
            _log.warning("a whole save is written into %s: %s", self._chain, error)
            return None
        if most is not None and len(chain) >= most:
            return None
        link = chain[-1]
        job = client.server_set.job
        if (link.manifest.job, link.manifest.num_servers) != (json.loads(job.to_json()), job.num_servers):
            _log.warning("a whole save is written into %s: what is there is of another job", self._chain)
            return None
        return link

    def parent(self, pieces: Sequence[Piece], to: Path) -> Parent | None:
        """What a manifest in `to` says about the save that it builds on; None: it is whole."""
        if not any(isinstance(piece, ChangedPiece) for piece in pieces):
            if self._newest is not None:
                _log.warning("a whole save is written into %s: no server knows what has changed", self._chain)
            return None
        assert self._newest is not None, "servers know no parent that they were not told"
        return parent_at(self._newest.folder, to)
