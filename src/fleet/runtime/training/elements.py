"""Tensors of a run: which elements this worker has and writes, and how they come back from whatever pieces hold them.

the same on all workers      divided: each writes about as many bytes
shards (DTensor)             each writes its own; of several copies of the model the first is written
known to one worker          that one writes all of it
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch.distributed.tensor import DTensor, Shard

from fleet.checkpoint import DTYPES, Form, Span, SpanData, TrainingManifest, check_file, map_spans
from fleet.errors import CheckpointError, NotSupportedError

# A tensor smaller than this is not worth two pieces.
SMALLEST_CUT_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Local:
    """The elements of a tensor that this worker has: `tensor`, from element `begin` of the whole on."""

    form: Form
    tensor: torch.Tensor
    begin: int = 0
    is_first_copy: bool = True

    @property
    def end(self) -> int:
        """The element of the whole tensor after the last one here."""
        return self.begin + self.tensor.numel()


def local_of(tensor: torch.Tensor, name: str) -> Local:
    """What this worker has of a tensor. NotSupportedError for a division that is not by rows."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES or tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotSupportedError(f"{name!r} is a {dtype} tensor of layout {tensor.layout}, which no checkpoint can hold")
    form = Form(dtype, tuple(tensor.shape))
    if not isinstance(tensor, DTensor):
        return Local(form, tensor.detach())
    shards = [(dim, one) for dim, one in enumerate(tensor.placements) if not one.is_replicate()]
    if len(shards) > 1 or any(type(one) is not Shard or one.dim != 0 for _, one in shards):
        raise NotSupportedError(
            f"{name!r} is divided as {tensor.placements}; checkpoints know tensors divided once, by their rows"
        )
    coordinate = tensor.device_mesh.get_coordinate()
    assert coordinate is not None, "this worker has no part in a mesh that its model is divided over"
    begin, copy_places = 0, list(coordinate)
    for dim, _ in shards:
        rows, parts = tensor.shape[0], tensor.device_mesh.size(dim)
        begin_row = min(rows, copy_places.pop(dim) * math.ceil(rows / parts))
        begin = begin_row * math.prod(tensor.shape[1:])
    return Local(form, tensor.to_local().detach(), begin, is_first_copy=not any(copy_places))


class WriteShare:
    """Collects what one worker of several writes, and copies it."""

    def __init__(self, worker: int, num_workers: int) -> None:
        self.forms: dict[str, Form] = {}
        self._worker = worker
        self._num_workers = num_workers
        self._divided: list[tuple[str, Local]] = []
        self._own: list[tuple[str, Local, int, int]] = []

    def add(self, key: str, tensor: torch.Tensor, owner: int | None = None) -> None:
        """Add a tensor of the run. Without an owner it is the same on all workers, unless it is divided already."""
        local = local_of(tensor, key)
        self.forms[key] = local.form
        if isinstance(tensor, DTensor) and any(isinstance(one, Shard) for one in tensor.placements):
            if local.is_first_copy:
                self._own.append((key, local, 0, local.tensor.numel()))
        elif owner is None:
            self._divided.append((key, local))
        elif owner == self._worker:
            self._own.append((key, local, 0, local.tensor.numel()))

    def copies(self) -> list[SpanData]:
        """What this worker writes, copied to the memory of the CPU; nothing that is trained on is held any more."""
        copies = []
        for key, local, begin, end in (*self._own, *self._divide()):
            if end > begin:
                span = Span(key, local.begin + begin, local.begin + end)
                copies.append((span, local.form, _copy(local.tensor, begin, end)))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()
        return [SpanData(span, form, to_bits(copy, form)) for span, form, copy in copies]

    def _divide(self) -> Iterator[tuple[str, Local, int, int]]:
        """Lay all bytes in a row and cut it into equal parts, but no small tensor in two."""
        total = sum(local.tensor.nbytes for _, local in self._divided)
        first = total * self._worker // self._num_workers
        last = total * (self._worker + 1) // self._num_workers
        at = 0
        for key, local in self._divided:
            size = local.tensor.element_size()
            if local.tensor.nbytes < SMALLEST_CUT_BYTES:
                begin, end = (0, local.tensor.numel()) if first <= at < last else (0, 0)
            else:
                begin, end = (min(max(0, -(-(edge - at) // size)), local.tensor.numel()) for edge in (first, last))
            at += local.tensor.nbytes
            yield key, local, begin, end


def _copy(tensor: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    flat = tensor.reshape(-1)[begin:end]
    if flat.device.type != "cuda":
        return flat.to("cpu", copy=True)
    copy = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
    copy.copy_(flat, non_blocking=True)
    return copy


def to_bits(tensor: torch.Tensor, form: Form) -> npt.NDArray[Any]:
    """The elements of a CPU tensor as a flat array of their bits, in the same memory if they lie in order."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    bits: npt.NDArray[Any] = flat.view(torch.uint8).numpy().view(form.bits)
    return bits


def from_bits(bits: npt.NDArray[Any], form: Form) -> torch.Tensor:
    """The elements of an array of bits as a flat tensor, in the same memory."""
    flat = torch.from_numpy(bits.reshape(-1).view("u1"))
    return flat.view(getattr(torch, form.dtype))


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
