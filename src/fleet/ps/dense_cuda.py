"""Dense parameters of a server on a GPU: values and state stay there, gradients are sent to it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.staging import host_buffer, upload, wait_for
from fleet.ps.tensor_rules import TENSOR_RULES


class DeviceGroup:
    """A `DenseGroup` whose buffers are tensors of one device. Its state is that of `HostGroup`, float by float.

    `apply` returns when the gradients have been taken; the device works on by itself, in order. Reading waits for it.
    """

    def __init__(self, rule: str, args: Mapping[str, float], size: int, device: str) -> None:
        try:
            self._native = _native.Rule(rule, args)
        except ValueError as error:
            raise UsageError(f"dense parameters: {error}") from None
        if rule not in TENSOR_RULES:
            raise UsageError(
                f"dense parameters: rule {rule} has no form for a server's GPU; choose one of "
                f"{', '.join(TENSOR_RULES)}, or start the servers with --server_device cpu"
            )
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise UsageError(
                "dense parameters: this server was told to keep them on a GPU, but torch sees none; start it with "
                "--server_device cpu"
            )
        self.size = size
        self._device = torch.device(device)
        self._rule, self._args = TENSOR_RULES[rule], dict(args)
        self._num_arrays = self._native.state_width(1) - self._native.state_width(0)
        self.start(np.zeros(size, np.float32))

    def start(self, values: NDArray[np.float32]) -> None:
        self.restore(values, self._native.start(self.size))

    def apply(self, grads: NDArray[np.float32], lr: float) -> None:
        assert grads.shape == (self.size,), f"{grads.shape} gradients for {self.size} values"
        on_device = self._sent(grads)
        self._rule(self._values, self._arrays.unbind(), self._scalars, on_device, lr, self._args)

    def read(self) -> NDArray[np.float32]:
        return self._fetched(self._values)

    def state(self) -> NDArray[np.float32]:
        return np.concatenate([self._fetched(self._arrays.view(-1)), self._scalars])

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        assert values.shape == (self.size,), f"{values.shape} values for a group of {self.size}"
        if self.size == 0:
            state = self._native.start(0)  # a checkpoint has no blocks of this group for this server, and no scalars
        width = self._native.state_width(self.size)
        assert state.shape == (width,), f"{state.shape} floats of state for a rule with {width}"
        num_floats = self._num_arrays * self.size
        self._values = self._sent(values)
        self._arrays = self._sent(state[:num_floats]).view(self._num_arrays, self.size)
        self._scalars = np.array(state[num_floats:], np.float32)

    def _sent(self, array: NDArray[np.float32]) -> torch.Tensor:
        """A copy on the device; the array may be a view of a request that is about to go."""
        buffer = host_buffer(array.shape, self._device)
        buffer.numpy()[...] = array
        return upload(buffer, self._device)

    def _fetched(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        """A copy in host memory."""
        buffer = host_buffer(tuple(tensor.shape), self._device).copy_(tensor, non_blocking=True)
        wait_for(self._device)
        array: NDArray[np.float32] = buffer.numpy()
        return array
