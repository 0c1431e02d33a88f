"""Half-asynchronous: workers do not wait for each other, but each waits for its own merged push."""

from collections.abc import Sequence

from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.sending.gradients import Gradients
from fleet.ps.worker.sending.merge import merged


class HalfAsync(PushPolicy):
    """Gradients of `max_merge_var_num` batches are merged, sent, and their answer is waited for."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._waiting: list[Gradients] = []

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        self._waiting.append(gradients)
        if len(self._waiting) >= self._setup.configs.max_merge_var_num or gradients.steps in self._client.half_sent:
            self.flush()
        if following:
            self.pull(following)

    def close(self) -> None:
        self._warn_of_loss(len(self._waiting))

    def restart_at(self, version: int) -> None:
        self._waiting = []
        super().restart_at(version)

    def flush(self) -> None:
        if not self._waiting:
            return
        pushes, self._waiting = merged(self._waiting, self._client.job), []
        for gradients in pushes:
            answers = self._client.push(gradients, want_dense=self._flat is not None).results()
        self._load([tensors for _, tensors in answers], max(header.version for header, _ in answers))
