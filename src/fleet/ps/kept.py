"""Tensors of a model that no push changes: frozen parameters, buffers, and all of it where nothing is trained.

The workers compute with copies of their own. Servers keep the values that worker 0 began with, for workers that come
later, and what it had at the last save, for checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.checkpoint import DTYPES, Form
from fleet.errors import CommunicationError, UsageError
from fleet.ps.spec import KeptTensor
from fleet.ps.wire import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from fleet.ps.wire import Tensor, Tensors


@dataclass(frozen=True)
class KeptTensors:
    """The tensors as a worker has them, each with its declaration."""

    tensors: Sequence[tuple[KeptTensor, torch.Tensor]] = ()

    def __bool__(self) -> bool:
        return bool(self.tensors)

    def values(self, server: int) -> list[Tensor]:
        """The present values of those that a server keeps, as bytes."""
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


def keep(named: Iterable[tuple[str, torch.Tensor]], num_servers: int) -> KeptTensors:
    """Declare tensors: each goes to the server that has the least so far, in the order given."""
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
        kept.append((KeptTensor(name, dtype, tuple(tensor.shape), server), tensor))
    if (most := max(sizes)) > MAX_MESSAGE_BYTES // 2:
        raise UsageError(
            f"frozen parameters and buffers take {sum(sizes) >> 20} MiB, {most >> 20} of them on one server, which can "
            f"take {MAX_MESSAGE_BYTES >> 21}; use more servers"
        )
    return KeptTensors(kept)


def _bytes(tensor: torch.Tensor) -> NDArray[Any]:
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().view(-1)
    array: NDArray[Any] = flat.view(torch.uint8).numpy()
    return array
