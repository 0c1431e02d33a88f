"""A checkpoint that is being loaded: its files checked, then elements from whatever pieces hold them into tensors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch

from fleet.checkpoint import Form, Span, TrainingManifest, check_file, map_spans
from fleet.errors import CheckpointError
from fleet.runtime.training.write_share import Local, from_bits


@dataclass(frozen=True, eq=False)
class Want:
    """A tensor to fill, or this worker's part of one, from the tensor `key` of the checkpoint."""

    key: str
    into: Local


class CheckpointSource:
    """A complete checkpoint. Only the ranges that are wanted are read; each worker opens what it needs."""

    def __init__(self, folder: Path, manifest: TrainingManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._mapped: dict[int, dict[Span, npt.NDArray[Any]]] = {}
        self._spans: dict[str, list[tuple[Span, int]]] = {}
        for number, piece in enumerate(manifest.pieces):
            for span in piece.spans:
                self._spans.setdefault(span.key, []).append((span, number))

    @property
    def where(self) -> str:
        """The folder as text, for errors."""
        return str(self.folder)

    def check_files(self, worker: int, num_workers: int) -> None:
        """Read this worker's share of the files from end to end; CheckpointError for one that is not as written."""
        for file in self.manifest.files[worker::num_workers]:
            check_file(self.folder / file.name, file)

    def form(self, key: str) -> Form:
        """Type and shape of a tensor; CheckpointError if the checkpoint mentions it but does not have it."""
        try:
            return self.manifest.forms[key]
        except KeyError:
            raise CheckpointError(f"{self.where} is damaged: it speaks of {key!r}, which it does not have") from None

    def tensor(self, key: str) -> torch.Tensor:
        """A whole tensor, in the memory of the CPU."""
        form = self.form(key)
        found = torch.empty(form.shape, dtype=getattr(torch, form.dtype))
        self.fill([Want(key, Local(form, found))])
        return found

    @torch.no_grad()
    def fill(self, wants: Iterable[Want]) -> None:
        """Copy the wanted elements into their tensors, which may have another type or device."""
        for want in wants:
            into = want.into.tensor
            flat = into.view(-1) if into.is_contiguous() else torch.empty(into.numel(), dtype=into.dtype)
            for first, elements in self._elements(want):
                flat[first : first + len(elements)].copy_(elements)
            if not into.is_contiguous():
                into.copy_(flat.view(into.shape))

    def _elements(self, want: Want) -> Iterator[tuple[int, torch.Tensor]]:
        """The parts of what is wanted, with their places in it."""
        form = self.form(want.key)
        for span, number in self._spans.get(want.key, ()):
            begin, end = max(span.begin, want.into.begin), min(span.end, want.into.end)
            if begin < end:
                bits = self._map(number)[span][begin - span.begin : end - span.begin]
                yield begin - want.into.begin, from_bits(bits, form)

    def _map(self, number: int) -> dict[Span, npt.NDArray[Any]]:
        if number not in self._mapped:
            self._mapped[number] = map_spans(self.folder, self.manifest.pieces[number], self.manifest.forms)
        return self._mapped[number]


class LazyTensors(Mapping[str, torch.Tensor]):
    """Tensors of a checkpoint by the names that `keys` has for them; each is read when it is asked for."""

    def __init__(self, source: CheckpointSource, keys: Mapping[str, str]) -> None:
        self._source = source
        self._keys = keys

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._source.tensor(self._keys[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
