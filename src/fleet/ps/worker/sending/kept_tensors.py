"""Tensors of a model that no push changes: frozen parameters, buffers, and all of it where nothing is trained.

The workers compute with copies of their own. Servers keep the values that worker 0 began with, for workers that come
later, and what it had at the last save, for checkpoints.
"""

from __future__ import annotations

import base64
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fleet.checkpoint import DTYPES, Form
from fleet.errors import CommunicationError, UsageError
from fleet.ps.job.spec import JobSpec, KeptTensor
from fleet.ps.wire.messages import MAX_MESSAGE_BYTES, Tensor, Tensors
from fleet.ps.worker.sending.flat import FlatParameters

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.modes.base import PushPolicy


log = logging.getLogger(__name__)

# A tensor that takes more is not stored with every push.
MAX_BYTES = 3072


@dataclass(frozen=True)
class KeptTensors:
    """The tensors as a worker has them, each with its declaration."""

    declared: Sequence[tuple[KeptTensor, torch.Tensor]] = ()
    """Each tensor as it was when it was declared."""
    model: nn.Module | None = None
    """The model that has the tensors."""

    def __bool__(self) -> bool:
        return bool(self.declared)

    @property
    def tensors(self) -> list[tuple[KeptTensor, torch.Tensor]]:
        """The tensors of today: `self.steps = self.steps + 1` puts another in the place of a buffer.

        UsageError if the new one has another form, unless it is a buffer that torch does not save.
        """
        if self.model is None:
            return list(self.declared)
        every = (
            *self.model.named_parameters(remove_duplicate=False),
            *self.model.named_buffers(remove_duplicate=False),
        )
        present = dict(every)
        return [(spec, self._present(spec, tensor, present.get(spec.name, tensor))) for spec, tensor in self.declared]

    def _present(self, spec: KeptTensor, declared: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
        if now.dtype == declared.dtype and now.shape == declared.shape:
            return now
        if spec.passing:
            return declared
        form = Form(str(now.dtype).removeprefix("torch."), tuple(now.shape))
        raise UsageError(
            f"{spec.name!r} is {form} now, and was {Form(spec.dtype, spec.shape)} in fleet.init_worker(), which told "
            "the servers; give it its last form before that"
        )

    def values(self, server: int) -> list[Tensor]:
        """The present values of the tensors that a server keeps, as bytes."""
        return [_bytes(tensor) for spec, tensor in self.tensors if spec.server == server]

    @torch.no_grad()
    def load(self, server: int, received: Tensors) -> None:
        """Write what a server sent into the model."""
        own = [(spec, tensor) for spec, tensor in self.tensors if spec.server == server]
        if len(received) != len(own):
            raise CommunicationError(f"server {server} sent {len(received)} of the {len(own)} tensors that it keeps")
        for (spec, tensor), data in zip(own, received, strict=True):
            raw = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
            if raw.nbytes != tensor.numel() * tensor.element_size():
                raise CommunicationError(
                    f"server {server} sent {raw.nbytes} bytes of {spec.name!r}, a {Form(spec.dtype, spec.shape)}"
                )
            if raw.nbytes:
                flat = torch.from_numpy(raw.copy()).view(tensor.dtype)  # aligned, and writable as torch wants it
                tensor.copy_(flat.view(tensor.shape))


class ChangedTensors:
    """The kept tensors that the script of a worker changes, such as how many batches a norm has seen.

    Small ones go with every push of a durable job, so that the next life of the worker has them as they were. Of larger
    ones it has what worker 0 had at the last save, which is said when one has changed for the third time: one that was
    loaded has changed once.
    """

    def __init__(self, kept: KeptTensors) -> None:
        self._homes: list[tuple[str, nn.Module, str, torch.Tensor]] = []
        for spec, tensor in kept.declared:
            owner, _, own = spec.name.rpartition(".")
            with contextlib.suppress(AttributeError):  # a parameter that only an optimizer has
                if kept.model is not None:
                    self._homes.append((spec.name, kept.model.get_submodule(owner), own, tensor))
        self._first = {name: (tensor, tensor._version) for name, tensor in self._present()}
        self._large: dict[str, list[tuple[int, int]]] = {}

    def _present(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors that have the form they were declared with, and that no optimizer trains."""
        for name, owner, own, declared in self._homes:
            tensor = getattr(owner, own, None)
            if not isinstance(tensor, torch.Tensor) or tensor.requires_grad:
                continue
            if tensor.dtype == declared.dtype and tensor.shape == declared.shape:
                yield name, tensor

    def state(self) -> dict[str, str]:
        """The tensors that have changed since this was made, as text."""
        found = {}
        for name, tensor in self._present():
            first, version = self._first.get(name, (None, 0))
            if tensor is first and tensor._version == version:
                continue
            if tensor.numel() * tensor.element_size() <= MAX_BYTES:
                found[name] = base64.b64encode(_bytes(tensor).tobytes()).decode()
            else:
                self._note(name, (id(tensor), tensor._version))
        return found

    def _note(self, name: str, now: tuple[int, int]) -> None:
        """Note what a tensor that is too large is now, and warn when it has changed for the third time."""
        seen = self._large.setdefault(name, [])
        if len(seen) == 3 or seen[-1:] == [now]:
            return
        seen.append(now)
        if len(seen) == 3:
            log.warning(
                "%r is changed by the script and takes more than %d bytes: it is in checkpoints only, and if this "
                "worker is killed its next life has what worker 0 had at the last save",
                name,
                MAX_BYTES,
            )

    @torch.no_grad()
    def restore(self, stored: Mapping[str, str]) -> None:
        """Write stored tensors into the model."""
        for name, tensor in self._present():
            if name in stored:
                raw = torch.frombuffer(bytearray(base64.b64decode(stored[name])), dtype=torch.uint8)
                tensor.copy_(raw.view(tensor.dtype).view(tensor.shape))


def keep(named: Iterable[tuple[str, torch.Tensor]], num_servers: int, model: nn.Module | None = None) -> KeptTensors:
    """Declare tensors of a model: each goes to the server that has the least so far, in the order given."""
    sizes = [0] * num_servers
    kept = []
    for name, tensor in named:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_quantized:
            raise UsageError(f"{name!r} is a {dtype} tensor of layout {tensor.layout}, which no checkpoint can hold")
        if tensor.device.type == "meta":
            raise UsageError(f"{name!r} lies on the meta device and has no values; call model.to_empty() first")
        server = sizes.index(min(sizes))
        sizes[server] += tensor.numel() * tensor.element_size()
        passing = int(model is not None and _is_passing(model, name))
        kept.append((KeptTensor(name, dtype, tuple(tensor.shape), server, passing), tensor))
    if (most := max(sizes)) > MAX_MESSAGE_BYTES // 2:
        raise UsageError(
            f"frozen parameters and buffers take {sum(sizes) >> 20} MiB, {most >> 20} of them on one server, which can "
            f"take {MAX_MESSAGE_BYTES >> 21}; use more servers"
        )
    return KeptTensors(kept, model)


def _is_passing(model: nn.Module, name: str) -> bool:
    """Whether a tensor is a buffer that torch does not save."""
    owner, _, own = name.rpartition(".")
    try:
        return own in model.get_submodule(owner)._non_persistent_buffers_set
    except AttributeError:  # a parameter that only an optimizer has, under a name we gave it
        return False


def _bytes(tensor: torch.Tensor) -> NDArray[Any]:
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().view(-1)
    array: NDArray[Any] = flat.view(torch.uint8).numpy()
    return array


def take_kept(client: Client, kept: KeptTensors) -> None:
    """Take over the tensors that the servers keep."""
    if kept or client.job.first_rows:  # first rows are there when kept tensors are
        for server, (_, tensors) in enumerate(client.pull((), kept=True).results()):
            kept.load(server, tensors)


def refuse_changes(names: Sequence[str], flat: FlatParameters, policy: PushPolicy, job: JobSpec) -> None:
    """UsageError for parameters whose values are the servers' and were changed here; a warning outside sync mode."""
    what = "parameter %r was changed by hand after fleet.init_worker(), but its value is on the servers; "
    remedy = "change it before that call; fleet.load_model() loads what was saved"
    if job.mode != "sync":  # the servers' values have changed meanwhile, so they cannot be compared
        log.warning(f"{what}{remedy}", names[0])
        return
    mine = flat.value_buffer.clone()
    policy.refresh()
    theirs = {name: value.clone() for name, value in flat.parameters() if name in names}
    flat.value_buffer.copy_(mine)
    form = getattr(torch, job.dense.value_format)  # the format that they travel in since the first step
    for name, value in flat.parameters():
        if name in names and not any(torch.equal(value, theirs[name].to(one).float()) for one in (torch.float32, form)):
            raise UsageError(f"{what}{remedy}" % name)
