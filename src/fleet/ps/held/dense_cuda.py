"""Dense parameters of a server on a GPU: values and state stay there, gradients are sent to it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job.rule_table import RULES, TensorRule
from fleet.ps.job.staging import host_buffer, upload, wait_for


class DeviceGroup:
    """A `DenseGroup` whose buffers are tensors of one device. Its state is that of `HostGroup`, float by float.

    `apply` returns when the gradients have been taken; the device computes on its own, in order. Reading waits for it.
    """

    def __init__(self, rule: str, args: Mapping[str, float], parts: Sequence[int], device: str) -> None:
        try:
            self._native = _native.Rule(rule, args)
        except ValueError as error:
            raise UsageError(f"dense parameters: {error}") from None
        if RULES[rule].formula is None:
            known = ", ".join(name for name, row in RULES.items() if row.formula is not None)
            raise UsageError(
                f"dense parameters: rule {rule} has no form for a server's GPU; choose one of "
                f"{known}, or start the servers with --server_device cpu"
            )
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise UsageError(
                "dense parameters: this server was told to keep them on a GPU, but torch sees none; start it with "
                "--server_device cpu"
            )
        self.size = sum(parts)
        self._ends = list(accumulate(parts))
        self._scalars = np.zeros((1, 0), np.float32)
        self._device = torch.device(device)
        self._rule = TensorRule(rule, args)
        self.start(np.zeros(self.size, np.float32))

    def start(self, values: NDArray[np.float32]) -> None:
        self.restore(values, self._native.start(self.size))

    def apply(self, grads: NDArray[np.float32], lr: float, absent: Sequence[int] = ()) -> None:
        assert grads.shape == (self.size,), f"{grads.shape} gradients for {self.size} values"
        on_device = self._sent(grads)
        if not absent and len(self._scalars) == 1:
            self._rule.apply(self._values, self._arrays.unbind(), self._scalars[0], on_device, lr)
            return
        if len(self._scalars) == 1 and len(self._ends) > 1:
            self._scalars = np.repeat(self._scalars, len(self._ends), axis=0)
        for first, last in self._runs(set(absent)):
            span, own = slice(self._ends[first - 1] if first else 0, self._ends[last]), self._scalars[first]
            self._rule.apply(self._values[span], self._arrays[:, span].unbind(), own, on_device[span], lr)
            self._scalars[first : last + 1] = own

    def _runs(self, absent: set[int]) -> Iterator[tuple[int, int]]:
        """The first and last part of each run of present parts with the same scalars."""
        first = 0
        while first < len(self._ends):
            last = first
            if first not in absent:
                while (
                    last + 1 < len(self._ends)
                    and last + 1 not in absent
                    and np.array_equal(self._scalars[last + 1], self._scalars[first])
                ):
                    last += 1
                yield first, last
            first = last + 1

    def read(self) -> NDArray[np.float32]:
        return self._fetched(self._values)

    def state(self) -> NDArray[np.float32]:
        return np.concatenate([self._fetched(self._arrays.view(-1)), self._scalars.reshape(-1)])

    def restore(self, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        assert values.shape == (self.size,), f"{values.shape} values for a group of {self.size}"
        if self.size == 0:
            state = self._native.start(0)  # a checkpoint has no blocks of this group for this server, and no scalars
        num_floats = self._rule.num_arrays * self.size
        num_scalars = self._native.state_width(1) - self._rule.num_arrays
        widths = {num_floats + num_scalars, num_floats + num_scalars * len(self._ends)}
        assert len(state) in widths, f"{state.shape} floats of state for a rule with {min(widths)}"
        self._values = self._sent(values)
        self._arrays = self._sent(state[:num_floats]).view(self._rule.num_arrays, self.size)
        scalars = np.array(state[num_floats:], np.float32)
        self._scalars = scalars.reshape(-1, num_scalars) if num_scalars else scalars.reshape(1, 0)

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
