"""Asynchronous: a worker never waits for the others, and for its own pushes only when too many are under way."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from dataclasses import dataclass, field

from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.wire.messages import Tensors
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.pending import Answers, PendingPull
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.parts.meters import measured
from fleet.ps.worker.sending.gradients import Gradients
from fleet.ps.worker.sending.merge import merged

_POLL_S = 0.2

# How long a push waits for the pull of a later batch: that comes at once, unless the data is slow.
_RIDE_S = 0.01


@dataclass
class _Push:
    """One entry of the queue: gradients, and a pull that may ride along."""

    gradients: Gradients
    lookups: Sequence[Lookup] = ()
    answers: Future[Answers] = field(default_factory=Future)
    may_go: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_gone: bool = False

    def take_along(self, lookups: Sequence[Lookup]) -> bool:
        """Let a pull ride; False if the push has left."""
        with self.lock:
            if not self.is_gone:
                self.lookups = lookups
        self.may_go.set()
        return self.lookups is lookups

    def leave(self) -> Sequence[Lookup]:
        """Let the push go now; returns the lookups that ride along."""
        self.may_go.wait(_RIDE_S)
        with self.lock:
            self.is_gone = True
            return self.lookups


class Async(PushPolicy):
    """A queue of pushes and a thread that sends them.

    The queue holds `send_queue_size` pushes; `step` waits while it is full. The sender takes up to `max_merge_var_num`
    of them at once and waits `send_wait_times` x 10 ms, or until a flush, for one more to merge. Fresh dense parameters
    ride on the answers, or, with `independent_recv_thread`, are pulled by a second thread after every
    `min_send_grad_num_before_recv` pushes. Either way the model changes only inside `step`.

    While `fleet.prefetch` runs, a step is followed at once by the pull of a later batch. The push waits a moment for
    it, and both travel as one request to each server.
    """

    pulls_ahead = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._queue: queue.Queue[_Push | None] = queue.Queue(setup.configs.send_queue_size)
        self._waiting: _Push | None = None  # the last push, if a pull may still ride on it
        self._dense: tuple[list[Tensors], int] | None = None  # the newest that was received, and its version
        self._restarts = 0  # how often the servers were given another state
        self._error: BaseException | None = None
        self._is_flushing = False  # then no push waits for another to merge with; guarded by the queue's lock
        self._lock = threading.Lock()
        self._sent = threading.Semaphore(0)
        self._is_stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(self._send_all,), name="fleet-send", daemon=True)]
        if setup.configs.independent_recv_thread and setup.flat is not None:
            receive = threading.Thread(target=self._run, args=(self._receive_all,), name="fleet-receive", daemon=True)
            self._threads.append(receive)
        for thread in self._threads:
            thread.start()

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        push = _Push(gradients)
        if self._expects_pull and self._setup.configs.max_merge_var_num == 1:
            self._waiting = push
        else:
            push.may_go.set()
        self._put(push)
        self._take_dense()
        if following:
            self.pull(following)

    def pull(self, lookups: Sequence[Lookup]) -> None:
        push, self._waiting = self._waiting, None
        if push is not None and push.take_along(lookups):
            self._note(PendingPull(lambda: self._answers_of(push), lookups), lookups)
        else:
            super().pull(lookups)

    def expect_no_pull(self) -> None:
        super().expect_no_pull()
        self._let_go()

    def restart_at(self, version: int) -> None:
        self._let_go()
        with self._lock:
            self._dense = None
            self._restarts += 1
        super().restart_at(version)

    def flush(self) -> None:
        self._let_go()
        with measured("wait"), self._queue.all_tasks_done:
            self._is_flushing = True
            self._queue.not_empty.notify_all()
            while self._queue.unfinished_tasks and self._error is None:
                self._queue.all_tasks_done.wait(_POLL_S)
            self._is_flushing = False
        self._raise()
        self._take_dense()

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.close()

    def close(self) -> None:
        self._is_stopped.set()
        self._sent.release()
        self._let_go()
        num_lost = 0
        with suppress(queue.Empty):
            while True:
                num_lost += self._queue.get_nowait() is not None
        self._queue.put_nowait(None)  # the thread that trains is here, so nothing else has come in
        if self._error is None:
            self._warn_of_loss(num_lost)
        for thread in self._threads:
            thread.join(rpc_timeout_s() + 10)

    def _let_go(self) -> None:
        """Let the last push go: no pull will ride along."""
        push, self._waiting = self._waiting, None
        if push is not None:
            push.may_go.set()

    def _answers_of(self, push: _Push) -> Answers:
        with measured("wait"):
            while True:
                self._raise()
                try:
                    return push.answers.result(timeout=_POLL_S)
                except NotYetError:
                    continue

    def _put(self, push: _Push) -> None:
        with measured("wait"):
            while True:
                self._raise()
                try:
                    self._queue.put(push, timeout=_POLL_S)
                except queue.Full:
                    continue
                return

    def _raise(self) -> None:
        """Raise the error of a thread in the one that trains."""
        if self._error is not None:
            raise self._error

    def _take_dense(self) -> None:
        with self._lock:
            dense, self._dense = self._dense, None
        if dense is not None:
            self._load(*dense)

    def _keep(self, answers: Answers, num_before: int = 0, restarts: int | None = None) -> None:
        """Note the dense parameters of answers, which come after `num_before` other tensors.

        `restarts`: how many there had been when they were asked for; after another one they are dropped.
        """
        version = max(header.version for header, _ in answers)
        with self._lock:
            if restarts in (None, self._restarts):
                self._dense = [tensors[num_before:] for _, tensors in answers], version

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._error = error

    def _send_all(self) -> None:
        rides = self._flat is not None and not self._setup.configs.independent_recv_thread
        is_last = False
        while not is_last:
            pushes, is_last = self._next()
            if not pushes:
                continue
            lookups = pushes[0].leave()  # pushes that are merged have none
            for gradients in merged([push.gradients for push in pushes], self._client.job):
                answers = self._client.push(gradients, want_dense=rides, lookups=lookups).results()
            if rides:
                self._keep(answers, len(lookups))
            pushes[0].answers.set_result(answers)
            self._sent.release()
            for _ in pushes:
                self._queue.task_done()

    def _next(self) -> tuple[list[_Push], bool]:
        """Some queued pushes, oldest first, and whether the end was among them."""
        first = self._queue.get()
        if first is None:
            return [], True
        pushes, configs = [first], self._setup.configs
        wait_s = configs.send_wait_times * 0.01
        while len(pushes) < configs.max_merge_var_num and pushes[-1].gradients.steps not in self._client.half_sent:
            with self._queue.not_empty:
                self._queue.not_empty.wait_for(lambda: self._queue.queue or self._is_flushing, wait_s)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return pushes, True
            pushes.append(item)
        return pushes, False

    def _receive_all(self) -> None:
        while True:
            for _ in range(self._setup.configs.min_send_grad_num_before_recv):
                self._sent.acquire()
                if self._is_stopped.is_set():
                    return
            restarts = self._restarts
            self._keep(self._client.pull((), dense=True).results(), restarts=restarts)
