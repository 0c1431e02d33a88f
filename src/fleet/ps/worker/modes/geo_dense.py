"""A worker's dense parameters in geo mode: what they were when the window began, and what the servers had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.ps.wire.messages import Tensor
    from fleet.ps.worker.sending.flat import FlatParameters


class DenseCopy:
    """The flat parameters of a model, all of which every worker trains: a difference is divided by their number."""

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._start = self._server = self._sent = flat.value_buffer.clone()

    def reset(self) -> None:
        """Begin a window: the model has just been given the servers' values."""
        self._start = self._server = self._flat.value_buffer.clone()

    def difference(self, num_workers: int, num_servers: int, num_groups: int) -> list[list[Tensor]]:
        """End a window: what it has changed, for each server one buffer for each group."""
        flat = self._flat
        self._sent = (flat.value_buffer - self._start) / num_workers
        self._start = flat.value_buffer.clone()
        # The gradient buffer carries the difference for a moment: its spans are what servers expect.
        gradients = flat.gradient_buffer.clone()
        flat.gradient_buffer.copy_(self._sent)
        flat.to_host()
        buffers: list[list[Tensor]] = [
            [b"".join(flat.pieces(server, group)) for group in range(num_groups)] for server in range(num_servers)
        ]
        flat.gradient_buffer.copy_(gradients)
        return buffers

    def merge(self, load: Callable[[], None], num_workers: int, awaited: float) -> None:
        """Go on from what the servers have now, which `load` writes into the model, with what was learned since.

        `awaited`: which part of the other workers has not been heard of in the window that was sent.
        """
        values = self._flat.value_buffer
        own = values.clone()
        load()
        server = values.clone()
        if torch.equal(server, self._server + self._sent):  # nobody else trains them, or the others are only late
            self._start = self._start if awaited else server
            values.copy_(own)
        else:
            target = server + (num_workers - 1) * awaited * self._sent
            values.copy_(target + (own - self._start))
            self._start = target
        self._server = server
