"""The calls of `fleet` in a job with servers: each chooses the job, of modules or registered, and hands it over.

`fleet.api` imports this file, so torch and what needs it are imported when a call is made.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from fleet import env
from fleet.errors import NotReadyError, NotSupportedError, RoleError, UsageError
from fleet.ps.job.patience import is_elastic
from fleet.roles import Role
from fleet.roles.questions import Questions
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from os import PathLike
    from pathlib import Path
    from typing import Any, TypeVar

    from torch import nn

    from fleet.collective.world.util import Util
    from fleet.collective.world.worlds import World
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.passing import Passing
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.runtime.jobs import RegisteredJob, ServerJob
    from fleet.runtime.modules.module_job import ModuleJob
    from fleet.runtime.modules.servers import Servers

    Batch = TypeVar("Batch")


class ServerCalls(Questions):
    """The part of `Fleet` that is about servers."""

    _strategy: DistributedStrategy | None
    _is_collective: bool

    def _forget(self) -> None:
        super()._forget()
        self._servers: Servers | None = None
        self._modules: ModuleJob | None = None
        self._registered: RegisteredJob | None = None

    @property
    @abstractmethod
    def util(self) -> Util:
        """Collective calls for scripts: barrier, all_reduce, all_gather and files for each worker."""

    @property
    def registered_job(self) -> RegisteredJob | None:
        """The job of this process, if it is of a kind that has registered itself."""
        return self._registered

    def worker_num(self) -> int:
        """Number of workers in the job; NotSupportedError where they come and go."""
        if is_elastic() and not self.is_server():
            raise NotSupportedError(
                "fleet.worker_num(): workers come and go in this job (--worker_num A:B), so there is no number to "
                "divide by; read files with fleet.data.files(..., queue=True), or give one number of workers"
            )
        return self.role.worker_num()

    def _module_job(self) -> ModuleJob:
        if self._modules is None:
            from fleet.runtime.modules.module_job import ModuleJob

            self._modules = ModuleJob(
                average=lambda tensor: self.util.mean_(tensor), add_up=lambda tensor: self.util.sum_(tensor)
            )
        return self._modules

    def _server_job(self) -> ServerJob:
        """The job with servers: a registered one once an optimizer of its kind was distributed, else of modules."""
        return self._module_job() if self._registered is None else self._registered

    def _server_side(self) -> Servers:
        if self._servers is None:
            from fleet.runtime.modules.servers import Servers

            self._servers = Servers(self._identity())
        return self._servers

    @property
    def progress(self) -> ScriptProgress | None:
        """Where the script of this worker is, for its next life; None in a job whose workers have one life only."""
        return None if self._is_collective else self._server_side().progress

    @property
    def passing(self) -> Passing | None:
        """What a worker does at the end of its batches where the others' steps wait for it; None: nothing."""
        if self._is_collective or self.worker_num() == 1 or not (job := self._server_job()).has_joined:
            return None
        try:
            return job.worker("a loop over data").passing
        except NotReadyError:  # it has left the servers
            return None

    def _end_life(self) -> None:
        """Forget where the script of this worker is, if it has ended well: there will be no next life.

        Under fleetrun nothing is forgotten here: until all workers have ended, the job may be killed and go on.
        """
        progress = None if self._servers is None else self._servers.progress
        if progress is None:
            return
        from fleet.jobfiles.ending import has_failed

        if has_failed() or env.is_under_fleetrun():
            progress.answers.close()
        else:
            progress.answers.remove()

    def _worker_world(self) -> Callable[[], World] | None:
        """Makes the world of the workers of a durable job, who are started again alone; None in any other job."""
        progress = None if self.is_server() else self.progress
        if progress is None:
            return None
        from fleet.runtime.modules.meeting_world import MeetingWorld

        def client() -> Client | None:
            job = self._server_job()
            return job.worker("fleet.util").client if job.has_joined else None

        servers = self._server_side()
        return lambda: MeetingWorld(servers.who, progress, client, servers.connect_anew)

    def _arrival(self) -> Callable[[str], None]:
        """How workers come to what they do together, so that one who does it alone is told; see `Util`."""
        if (
            self.is_server() or self.progress is not None
        ):  # in a durable job everything they say to each other is said at a meeting
            return lambda _: None
        if self._is_collective:
            from fleet.collective.world.arrival import arrival_of_workers

            arrival = arrival_of_workers() if self.worker_num() > 1 else None
            return (lambda _: None) if arrival is None else arrival.come
        from fleet.runtime.modules.meeting_world import ServedArrival

        return ServedArrival(lambda: None if self._modules is None else self._modules.client).come

    def steps_done(self) -> int:
        """How many steps lie behind this worker: 0 in a new run.

        A step is what is done with one batch, however many optimizers step (docs/glossary.md). Those that a loaded
        `fleet.Checkpoint` had behind it count, and in a durable job those of the worker's former lives: one that was
        killed and started again goes on with the step that was under way. A script with data of its own begins with
        this number; one that only loops over `fleet.data` or `fleet.steps` need not ask.
        """
        if self._is_collective:
            from fleet.observe.metrics.steps import steps

            return steps.count.num
        worker = self._server_job().worker("fleet.steps_done()")
        if worker.progress is not None:
            worker.progress.count_asked()
        return worker.done.count.num

    def worker_client(self, what: str) -> Client:
        """This worker's connections to the servers; NotReadyError, which names `what` needs them, if there are none."""
        return self._server_job().worker(what).client

    def init_server(self, model_dir: str | PathLike[str] | None = None) -> None:
        """Prepare this server; with `model_dir` it begins with a checkpoint of `save_persistables`."""
        self._server_side().begin_with(model_dir)

    def run_server(self) -> None:
        """Serve until every worker has left, or until SIGTERM. Prints `Server listening on IP:PORT` when ready."""
        self._server_side().run()

    def init_worker(self, dispatcher: Dispatcher | Dispatch | None = None) -> None:
        """Join the servers: declare tables, agree on the first dense parameters (worker 0's are everybody's).

        Without servers in the job, the tables live in this process. `dispatcher` says which server holds which block of
        the dense parameters; without it they go round robin.
        """
        who = self._identity()
        if who.role is not Role.WORKER:
            raise RoleError(
                f"{who.name} is no worker; call fleet.init_worker() where fleet.is_worker(), and before it: "
                "if fleet.is_server(): sys.exit(fleet.run_server())"
            )
        if self._is_collective:
            raise UsageError("fleet.init_worker() joins servers, and a collective job has none; leave it out")
        from fleet.runtime.modules import presence

        strategy = self._strategy or DistributedStrategy()
        strategy.require_supported(False)  # it may have changed since fleet.init()
        presence.watch(self._server_side())
        self._server_job().init_worker(self._server_side(), strategy, dispatcher)

    def stop_worker(self) -> None:
        """Send what is queued, take leave of the servers. Afterwards the model has the servers' dense parameters."""
        for job in (self._registered, self._modules):
            if job is not None:
                job.stop_worker()
        self._watch_no_more()

    def _watch_no_more(self) -> None:
        """End the watch of this worker, if it was one of a job with servers."""
        if self._servers is not None and not self._is_collective:
            from fleet.runtime.modules import presence

            presence.watch_no_more()

    def _watch_early(self) -> None:
        """Watch a worker of a job with servers before it has joined them."""
        who = self._identity()
        if who.role is Role.WORKER and who.server_endpoints and not self._is_collective:
            from fleet.runtime.modules import presence

            presence.watch_from_the_start(self._server_side())

    def save_persistables(self, *args: Any, **more: Any) -> Path | None:
        """Write a checkpoint of everything on the servers, on a file system that all share; every worker calls it.

        Worker 0 has it written and waits for nobody, so that it may also call this alone; the others wait for it. It
        takes the folder to write. With `incremental=True` only what changed since the last such save there is written.
        """
        if self._is_collective and self._registered is None:
            raise UsageError(
                "fleet.save_persistables() has servers write, and a collective job has none; save with fleet.Checkpoint"
            )
        return self._server_job().save_persistables(*args, **more)

    def load_model(self, dirname: str | PathLike[str]) -> int:
        """Replace everything on the servers by a checkpoint, which any number of servers may have written.

        Every worker calls it: worker 0 lets the servers load, the others wait for that and take over what was loaded.
        Returns the number of rows.
        """
        from fleet.runtime.saved import saving

        job = self._server_job()
        worker = job.worker("fleet.load_model()")
        take_over = job.read_trainer_variables(dirname)
        rows = saving.load_together(worker, dirname, self._identity(), self.util)
        take_over()
        return rows

    def load_rows(self, table: str | nn.Module, keys: Any, values: Any) -> int:
        """Write rows of a table by value, such as pretrained ones; every worker calls it, after `init_worker`.

        `table` is its name, or the `fleet.nn` module that has it; `values` [n, width] are the rows of the n distinct
        integers `keys`, or of 0, 1, 2 ... where `keys` is None. Those of worker 0 are written, while all wait. A row
        that was there is replaced; each begins with a new state of the rule, whatever the entry policy says. In a
        durable job it happens once in all lives of the workers. Returns how many rows were written.

            fleet.load_rows(model.rows, torch.arange(1000), pretrained)
        """
        from fleet.runtime.modules.rows import load_rows

        worker = self._server_job().worker("fleet.load_rows()")
        return load_rows(worker, table, keys, values, self._identity(), self.util)

    def save_inference_model(self, *args: Any, **more: Any) -> Path | list[str]:
        """Write values only, as plain numpy files, for serving; every worker calls it, as `save_persistables`.

        It takes the folder to write, and the `fleet.data.Schema` of the data if `fleet-serve` is to make ids of raw
        columns: `save_inference_model(dirname, schema=None)`.
        """
        return self._server_job().save_inference_model(*args, **more)

    def gather_state_dict(
        self, model: nn.Module, folder: str | PathLike[str] | None = None, *, max_bytes: int = 8 << 30
    ) -> dict[str, Any]:
        """A plain state_dict with all values in it: for each table its rows as `weight`, with their ids as `keys`.

        Whoever calls it gets it, in host memory; no other worker takes part. Parameters and rows are those on the
        servers, buffers this worker's. Rows travel by way of `folder`, which servers must see (by default that for
        temporary files, which is right on one machine). UsageError where tables take more than `max_bytes`.

            torch.save(fleet.gather_state_dict(model), "model.pt")
            model.load_state_dict(torch.load("model.pt"))       # in a process without a job
        """
        from fleet.runtime.saved.saving import gather_state_dict, rows_elsewhere

        try:
            worker = self._module_job().worker("fleet.gather_state_dict()")
        except NotReadyError:  # everything may be in the model itself
            if rows_elsewhere(model):
                raise
            worker = None
        return gather_state_dict(model, worker, folder, max_bytes)

    def shrink(
        self,
        table: str | None = None,
        *,
        unseen_steps: int = 0,
        unseen_s: float = 0.0,
        score_below: float | None = None,
        decay: float = 0.0,
        keys_to: str | PathLike[str] | None = None,
    ) -> int:
        """Delete rows not trained for more than `unseen_steps` and, where clicks are counted, those of a low score.

        `unseen_s` is an age in seconds of wall-clock time instead. `decay` multiplies shows and clicks first. Returns
        how many rows were deleted, in one table or in all; `keys_to` is a folder that all servers see, in which they
        list them: TABLE.server-000.npy holds the keys.
        """
        from fleet.runtime.saved import saving

        worker = self._server_job().worker("fleet.shrink()")
        return saving.shrink(
            worker,
            table,
            unseen_steps=unseen_steps,
            unseen_s=unseen_s,
            score_below=score_below,
            decay=decay,
            keys_to=keys_to,
        )

    def reshard(self, *, servers: int, wait: bool = False) -> None:
        """Go on with another number of servers: rows move to them while training goes on.

        For durable jobs on one machine (`fleetrun --durable DIR`). Every worker may call it; worker 0 sees to it, in
        the background. `wait`: it returns when the new servers have taken over, or raises if they did not; worker 0
        only. Training stands still for a moment at the end, and nothing is lost.
        """
        self._module_job().reshard(servers, wait=wait)

    def server_stats(self) -> list[dict[str, Any]]:
        """What each server holds and has done: rows and bytes of each table, pulls, pushes, staleness, connections."""
        from fleet.runtime.saved import saving

        return saving.stats(self._server_job().worker("fleet.server_stats()"))

    def flush(self) -> None:
        """Return when everything this worker has sent was applied."""
        self._server_job().worker("fleet.flush()").policy.flush()

    def prefetch(
        self, loader: Iterable[Batch], model: nn.Module, keys: Callable[[Batch], object] | None = None
    ) -> Iterator[Batch]:
        """Iterate over batches and pull the rows of the next one while this one is computed.

        `keys(batch)` gives what the model's sparse module will be called with; see fleet.runtime.modules.prefetch.
        """
        from fleet.runtime.modules.prefetch import prefetch

        return prefetch(loader, model, keys)
