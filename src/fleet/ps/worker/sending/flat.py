"""Dense parameters of a worker as two flat float32 buffers, one of values and one of gradients.

Each parameter and its gradient become views of the buffers, so that what goes to a server is a few spans of memory and
what comes from it is copied straight into the model. Autograd, optimizers and `state_dict` see ordinary parameters.

Every parameter begins at a multiple of 64 bytes, as torch itself allocates: kernels choose their path, and with it the
last bits of a result, by alignment. Parameters that begin on the same server and are in the same group lie together,
and spans that follow each other, in the order of the blocks, are one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.errors import CommunicationError, UsageError
from fleet.ps.job.dense_spec import DenseBlock, check_cover
from fleet.ps.job.from_torch import Named, distinct_parameters
from fleet.ps.job.staging import wait_for
from fleet.ps.wire.messages import Tensor
from fleet.ps.worker.sending.flat_layout import Portion, Span, begins_of, portions_of, spans_of


@dataclass
class _Slot:
    """A parameter's place in the buffers."""

    name: str
    parameter: torch.Tensor
    begin: int
    group: int
    value: torch.Tensor
    gradient: torch.Tensor
    version: int = 0
    """The parameter's version: torch counts what is done to it in place."""
    is_absent: bool = False
    """Whether it had no gradient when gradients were last collected."""


class FlatParameters:
    """Takes over the memory of parameters, given as (name, parameter, group), whose `blocks` lie on servers.

    Values and gradients are kept as they are. Parameters are those of `distinct_parameters()`: only they have blocks.
    They must stay where they are from now on; `collect_gradients` says so if one was moved. One whose `.grad` is None
    has had no part in the loss: its gradient in the buffer is zeros, and it is `absent`.

    A step is: `backward()`, `collect_gradients()`, `to_host()`, send `pieces(server, group)`, `zero_grad()`, and
    `load_values(server, group, data)` when the answer is there.
    """

    def __init__(
        self, parameters: Sequence[Named], blocks: Sequence[DenseBlock], statistics: int | None = None
    ) -> None:
        """`statistics`: the group of tensors that have no gradient; what is sent of them is their value."""
        kept = distinct_parameters(parameters)
        self._statistics = statistics
        check_cover([(name, parameter.numel()) for name, parameter, _ in kept], blocks)
        home = {block.parameter: (block.server, block.group) for block in blocks if block.begin == 0}
        for name, _, group in kept:
            if home[name][1] != group:
                raise UsageError(f"parameter {name!r} is in group {group}, but its blocks in group {home[name][1]}")
        self.device = kept[0][1].device if kept else torch.device("cpu")
        ordered = sorted(kept, key=lambda one: home[one[0]])
        begins, size = begins_of([parameter.numel() for _, parameter, _ in ordered])
        self.value_buffer = torch.zeros(size, dtype=torch.float32, device=self.device)
        self.shared_buffer = torch.zeros(size + len(ordered), dtype=torch.float32, device=self.device)
        """What workers average where dense parameters stay with them: gradients, then `note_presence`'s marks."""
        self.gradient_buffer = self.shared_buffer[:size]
        self._slots = [
            self._take(name, parameter, begin, group)
            for (name, parameter, group), begin in zip(ordered, begins, strict=True)
        ]
        self._spans = spans_of({slot.name: slot.begin for slot in self._slots}, blocks)
        self._statistics_spans = [
            span for (_, group), spans in self._spans.items() if group == statistics for span in spans
        ]
        # Beside buffers on a GPU: gradients on their way to servers, and values on their way back.
        self._host_gradients = self.gradient_buffer if self.is_on_host else self._pinned(size)
        self._host_values = self.value_buffer if self.is_on_host else self._pinned(size)
        self._gradient_bytes = gradients = _bytes(self._host_gradients)
        self._pieces = {
            place: tuple(gradients[4 * begin : 4 * end] for begin, end in spans) for place, spans in self._spans.items()
        }
        self._values_array: NDArray[np.float32] = self._host_values.numpy()
        self._loaded: dict[tuple[int, int], torch.cuda.Event] = {}

    @property
    def is_on_host(self) -> bool:
        """Whether the parameters lie in CPU memory, where a server's answer can be written into them directly."""
        return self.device.type == "cpu"

    @property
    def host_gradients(self) -> torch.Tensor:
        """The gradients as they were when `to_host` brought them to CPU memory, in the order of the buffers."""
        return self._host_gradients

    @property
    def names(self) -> list[str]:
        """Names of the parameters, in the order of their place in the buffers."""
        return [slot.name for slot in self._slots]

    @property
    def groups(self) -> list[int]:
        """The group of each parameter, in the same order."""
        return [slot.group for slot in self._slots]

    def parameters(self) -> list[tuple[str, torch.Tensor]]:
        """Name and present value of each parameter, in its shape."""
        return [(slot.name, slot.value) for slot in self._slots]

    def spans(self, server: int, group: int) -> tuple[Span, ...]:
        """What a server holds of a group: (begin, end) in the buffers, in the order of the blocks."""
        return self._spans.get((server, group), ())

    def size(self, server: int, group: int) -> int:
        """How many elements of a group a server holds."""
        return sum(end - begin for begin, end in self.spans(server, group))

    def of_groups(self, buffer: torch.Tensor, groups: Collection[int]) -> list[torch.Tensor]:
        """The parts of one of the buffers that belong to some groups: the buffer itself, if that is all of it."""
        if all(group in groups for _, group in self._spans):
            return [buffer]
        return [
            buffer[begin:end] for (_, group), spans in self._spans.items() if group in groups for begin, end in spans
        ]

    def pieces(self, server: int, group: int) -> tuple[memoryview, ...]:
        """The gradients of a group for a server: bytes of the buffer itself, to be joined; they change with it."""
        return self._pieces.get((server, group), ())

    def portions(self) -> dict[tuple[int, int], list[Portion]]:
        """What `pieces` are made of, for each server and each group whose gradients are those of parameters."""
        begins, sizes = [slot.begin for slot in self._slots], [slot.parameter.numel() for slot in self._slots]
        return {
            (server, group): portions_of(spans, begins, sizes)
            for (server, group), spans in self._spans.items()
            if group != self._statistics
        }

    def parameter(self, number: int) -> torch.Tensor:
        """A parameter, by its number in a `Portion`."""
        return self._slots[number].parameter

    def gradient_bytes(self, portion: Portion) -> memoryview | bytes | None:
        """The present gradient of a portion, as bytes; None unless it is plain float32 in CPU memory."""
        slot = self._slots[portion.parameter]
        gradient = slot.parameter.grad
        if gradient is None:
            return bytes(portion.size)
        if gradient is slot.gradient and self.is_on_host:
            return self._gradient_bytes[4 * (slot.begin + portion.begin) : 4 * (slot.begin + portion.end)]
        is_plain = gradient.layout == torch.strided and gradient.dtype == torch.float32 and gradient.is_contiguous()
        if not is_plain or gradient.device.type != "cpu" or gradient.numel() != slot.parameter.numel():
            return None
        return _bytes(gradient.detach().view(-1)[portion.begin : portion.end])

    def values(self, server: int, group: int) -> memoryview:
        """A copy of the present values of a group that a server holds, as bytes."""
        spans = self.spans(server, group)
        if not spans:
            return memoryview(b"")
        return _bytes(torch.cat([self.value_buffer[begin:end] for begin, end in spans]).cpu())

    def load_values(self, server: int, group: int, data: Tensor) -> None:
        """Write what a server sent for a group into the parameters; threads may do so for several servers at once."""
        size = self.size(server, group)
        source = data.reshape(-1) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        if source.nbytes != 4 * size:
            raise CommunicationError(
                f"server {server} sent {source.nbytes} bytes of dense group {group}, expected {4 * size}"
            )
        if size == 0:
            return
        source = source.view(np.float32)
        if (loaded := self._loaded.get((server, group))) is not None:
            loaded.synchronize()  # the copy of the last answer may still read the memory that this one goes to
        start = 0
        for begin, end in self.spans(server, group):
            self._values_array[begin:end] = source[start : start + end - begin]
            start += end - begin
            if not self.is_on_host:
                self.value_buffer[begin:end].copy_(self._host_values[begin:end], non_blocking=True)
        if not self.is_on_host:
            self._loaded[server, group] = torch.cuda.current_stream(self.device).record_event()

    @torch.no_grad()
    def collect_gradients(self) -> None:
        """Make the buffer hold every gradient, whatever was done to `.grad` since the last step.

        What autograd put there after `zero_grad`, a new tensor, a sparse gradient: it is copied, and `.grad` is a view
        again. A parameter without a gradient stays so.
        """
        views: list[torch.Tensor] = []
        found: list[torch.Tensor] = []
        for slot in self._slots:
            if slot.parameter.data_ptr() != slot.value.data_ptr():
                raise UsageError(
                    f"parameter {slot.name!r} was moved or converted after Fleet took it over; do so with the "
                    "model before that"
                )
            if slot.group == self._statistics:
                continue
            gradient = slot.parameter.grad
            slot.is_absent = gradient is None
            if slot.gradient.data_ptr() != self._address(slot):
                slot.gradient = self._view(self.gradient_buffer, slot.parameter, slot.begin)
            elif gradient is slot.gradient:
                continue
            if gradient is None:
                slot.gradient.zero_()
                continue
            views.append(slot.gradient)
            found.append(_dense(gradient, self.gradient_buffer))
            slot.parameter.grad = slot.gradient
        if views:
            torch._foreach_copy_(views, found)
        for begin, end in self._statistics_spans:
            self.gradient_buffer[begin:end] = self.value_buffer[begin:end]

    def give_gradients(self) -> None:
        """Give every parameter a gradient, in the buffer, for whoever computes them without autograd to write into."""
        for slot in self._slots:
            if slot.group != self._statistics:
                slot.parameter.grad = slot.gradient

    def absent(self, groups: Collection[int]) -> list[str]:
        """The parameters of some groups that had no gradient when they were last collected."""
        return [slot.name for slot in self._slots if slot.is_absent and slot.group in groups]

    def has_gradients(self) -> bool:
        """Whether any parameter had a gradient when they were last collected."""
        return any(not slot.is_absent for slot in self._slots if slot.group != self._statistics)

    def note_presence(self) -> None:
        """Mark in the `shared_buffer` which parameters have a gradient here."""
        marks = [float(not slot.is_absent) for slot in self._slots]
        self.shared_buffer[len(self.gradient_buffer) :] = torch.tensor(marks)

    def heed_presence(self) -> None:
        """The `shared_buffer` is a mean over workers now: what has a gradient somewhere has one here."""
        for slot, mark in zip(self._slots, self.shared_buffer[len(self.gradient_buffer) :].tolist(), strict=True):
            if slot.is_absent and mark:
                slot.parameter.grad, slot.is_absent = slot.gradient, False

    def changed_by_hand(self) -> list[str]:
        """The parameters that somebody has written to since the last call, as `load_state_dict` and `fill_` do."""
        changed = []
        for slot in self._slots:
            if slot.group != self._statistics and slot.parameter._version != slot.version:
                slot.version = slot.parameter._version
                changed.append(slot.name)
        return changed

    def take_statistics(self) -> None:
        """Write into the running statistics what the gradient buffer has in their place."""
        for begin, end in self._statistics_spans:
            self.value_buffer[begin:end] = self.gradient_buffer[begin:end]

    def zero_grad(self, groups: Collection[int] | None = None, *, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or of some groups; or set them to zeros in place."""
        if set_to_none:
            for slot in self._slots:
                if groups is None or slot.group in groups:
                    slot.parameter.grad = None
            return
        for (_, group), spans in self._spans.items():
            if groups is None or group in groups:
                for begin, end in spans:
                    self.gradient_buffer[begin:end].zero_()
        for slot in self._slots:
            if slot.group == self._statistics or (groups is not None and slot.group not in groups):
                continue
            if slot.parameter.grad is not None and slot.parameter.grad is not slot.gradient:
                slot.parameter.grad.zero_()

    def to_host(self) -> None:
        """Copy the gradients to CPU memory, where `pieces` are, and wait for that; nothing if they lie there."""
        if not self.is_on_host:
            self._host_gradients.copy_(self.gradient_buffer, non_blocking=True)
            wait_for(self.device)

    def from_host(self) -> None:
        """Take gradients that were changed where `pieces` are back into the parameters."""
        if not self.is_on_host:
            self.gradient_buffer.copy_(self._host_gradients)

    @torch.no_grad()
    def _take(self, name: str, parameter: torch.Tensor, begin: int, group: int) -> _Slot:
        value = self._view(self.value_buffer, parameter, begin)
        gradient = self._view(self.gradient_buffer, parameter, begin)
        value.copy_(parameter)
        if parameter.grad is not None:
            gradient.copy_(_dense(parameter.grad, self.gradient_buffer))
        parameter.data = value
        if parameter.grad is not None:
            parameter.grad = gradient
        return _Slot(name, parameter, begin, group, value, gradient, parameter._version)

    def _address(self, slot: _Slot) -> int:
        return self.gradient_buffer.data_ptr() + 4 * slot.begin

    @staticmethod
    def _view(buffer: torch.Tensor, parameter: torch.Tensor, begin: int) -> torch.Tensor:
        return buffer[begin : begin + parameter.numel()].view(parameter.shape)

    def _pinned(self, size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.float32, pin_memory=self.device.type == "cuda")


def _dense(gradient: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    if gradient.layout != torch.strided:
        return gradient.to_dense()
    # A tensor over the buffer, such as a transposed view, must not be read while it is written.
    is_ours = gradient.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
    return gradient.clone() if is_ours else gradient


def _bytes(tensor: torch.Tensor) -> memoryview:
    array: NDArray[np.float32] = tensor.numpy()
    return array.view(np.uint8).data
