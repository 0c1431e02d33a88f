"""Synchronous: a step ends when every worker's gradients are in, and everybody goes on from the same parameters."""

from collections.abc import Sequence

from fleet.errors import NotSupportedError
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.pending import PendingPull
from fleet.ps.worker.calling.step_norm import keeps_pushes, must_settle, settle
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.sending.gradients import Gradients


class Sync(PushPolicy):
    """Servers add gradients in the order of the workers and apply the mean once; N workers equal one with N batches."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._version = setup.version
        """How many steps all workers have done: the number of the step that comes next."""
        self._takes_part = not setup.client.job.is_elastic

    def pull(self, lookups: Sequence[Lookup]) -> None:
        self._client.arrive()
        self._note(self._client.pull(lookups, version=self._version), lookups)

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        """Push; the servers answer when the step is complete, with what the next batch needs.

        That is the dense parameters and, where they are known, the rows of the next batch: one request per server and
        step. Without either there is no hurry; the next pull waits.
        """
        if not self._takes_part:
            raise NotSupportedError(
                "optimizer.step() outside a loop over fleet.data.files(..., queue=True): workers come and go in this "
                "job (--worker_num A:B), and no synchronous step waits for one without a batch of it; step inside such "
                "a loop, or set strategy.a_sync"
            )
        self._client.arrive()
        gradients.step = self._version
        has_dense = self._flat is not None
        if must_settle(self._client):
            self._step_by_norm(gradients, following)
            return
        sent = self._client.push(gradients, want_dense=has_dense, lookups=following, is_awaited=True)
        self._version += 1
        if not has_dense and not following:
            self._client.unanswered.put(sent)
            if self._client.first_decides:  # the other servers have not got it yet, and would stay a step behind
                self._client.arrive()
            return
        version, dense = PendingPull(sent.results, following).finish(self._setup.device, True)
        if has_dense:
            self._load(dense, version)

    def _step_by_norm(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        """Push, settle the norm of the step, and ask for what the next batch needs."""
        keeps = keeps_pushes(self._client.server_set)
        settle(self._client, self._version, self._client.push(gradients, is_awaited=keeps))
        self._version += 1
        has_dense = self._flat is not None
        if has_dense or following or keeps:
            pulled = self._client.pull(following, version=self._version, dense=has_dense)
            version, dense = pulled.finish(self._setup.device, True)
            self._load(dense, version)

    def pass_on(self, steps: int) -> None:
        """Take part in the step that comes next without gradients; returns when it is complete.

        `steps` is how many steps of this worker there are. The dense parameters are not asked for: `refresh` gets them
        when the worker goes on.
        """
        self._client.arrive()
        passed = Gradients(self._version, steps=steps, is_pass=True)
        pushed = self._client.push(passed, is_awaited=True)
        if keeps_pushes(self._client.server_set):
            settle(self._client, self._version, pushed)
            self._client.pull((), version=self._version + 1).results()
        else:
            pushed.results()
        self._version += 1

    def take_part(self, *, loads: bool = True) -> int | None:
        """Workers come and go: have steps wait for this one, and go on from the parameters of the first that does."""
        if self._takes_part:
            return None
        before, self._version = self._version, self._join_steps()
        self._takes_part = True
        if (
            loads and self._version != before
        ):  # otherwise a former life took part, and this one may have parameters of its own
            pulled = self._client.pull((), version=self._version, dense=self._flat is not None)
            version, dense = pulled.finish(self._setup.device, False)
            self._load(dense, version)
        return self._version

    def step_aside(self) -> None:
        self.flush()
        if self._takes_part and self._client.job.is_elastic:
            self._join_steps(is_out=True)
            self._takes_part = False

    def _join_steps(self, *, is_out: bool = False) -> int:
        """Have steps wait for this worker, or no more; the first that does."""
        client, every = self._client, self._setup.num_optimizers

        def make(server: int) -> ps_pb2.JoinRequest.Header:
            return ps_pb2.JoinRequest.Header(caller=client.caller(server), is_out=is_out, every=every)

        reply: ps_pb2.JoinReply.Header = client.changes.make("Join", make)[0]
        return reply.step

    def refresh(self, *, is_exact: bool = True) -> None:
        """Read the dense parameters of the step that comes next.

        The one before may not be complete yet where a former life of this worker had pushed it.
        """
        if self._flat is not None:
            pending = self._client.pull((), version=self._version, dense=True, is_exact=is_exact)
            version, dense = pending.finish(self._setup.device, False)
            self._load(dense, version)

    def restart_at(self, version: int) -> None:
        self._client.unanswered.put(None)
        self._version = version
        super().restart_at(version)

    def flush(self) -> None:
        """Return when the other workers, too, have pushed the last step.

        With dense parameters `step` has waited for that; without any it has not, and a checkpoint would lack it.
        """
        self._client.arrive()
