"""Loads a checkpoint into a run: everything is checked, on all workers, before anything is changed on one."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import torch

from fleet.checkpoint import Form
from fleet.collective.worlds import World
from fleet.errors import CheckpointError, FleetError
from fleet.runtime.training import random_states
from fleet.runtime.training.optimizers import Optimization, Planned
from fleet.runtime.training.reading import CheckpointSource, LazyTensors, Want
from fleet.runtime.training.run_parts import RunParts, Stateful, model_tensors
from fleet.runtime.training.trees import decode
from fleet.runtime.training.write_share import local_of

log = logging.getLogger(__name__)

T = TypeVar("T")


def together(world: World, what: Callable[[], T]) -> T:
    """Do something on every worker; if it fails on one, it fails on all, with that one's reason."""
    failure: Exception | None = None
    try:
        result = what()
    except Exception as error:
        failure = error
    text = b"" if failure is None else (str(failure) or repr(failure)).encode()
    texts = world.gather_bytes(text)
    if failure is not None:
        raise failure
    for worker, text in enumerate(texts):
        if text:
            raise CheckpointError(f"worker {worker}: {text.decode()}")
    return result


class Restore:
    """One checkpoint on its way into one run."""

    def __init__(self, parts: RunParts, source: CheckpointSource) -> None:
        self._parts = parts
        self._source = source
        self._shared = source.manifest.shared
        workers = source.manifest.workers
        self._is_new = parts.worker >= len(workers)
        self._own = workers[0 if self._is_new else parts.worker]

    def run(self, world: World) -> None:
        """Every worker calls it."""
        source, parts = self._source, self._parts
        model, optimizer = together(world, self._plan)
        together(world, lambda: source.check_files(parts.worker, parts.num_workers))
        self._load_objects(world)

        def change() -> None:
            try:
                source.fill(model)
                source.fill(optimizer.wants)
                optimizer.apply()
                self._load_the_rest()
            except Exception as error:
                raise CheckpointError(f"{source.where} is half loaded, begin again: {error!r}") from error

        together(world, change)  # nobody trains before all have loaded

    def _plan(self) -> tuple[list[Want], Planned]:
        with self._damage():
            wants = self._plan_model()
            planned = Optimization(self._parts.model, self._parts.optimizer, self._parts.worker).plan(self._source)
            self._check_objects()
            for owned in (self._own, *self._source.manifest.workers):
                _ = [owned[name] for name in ("num_updates", "scale", "random", "mode")]
            _ = [self._shared[name] for name in ("mode", "model_extra")]
        return wants, planned

    def _plan_model(self) -> list[Want]:
        here, forms, where = model_tensors(self._parts.model.module), self._source.manifest.forms, self._source.where
        aliases = self._shared["aliases"]
        saved = {key.removeprefix("model/") for key in forms if key.startswith("model/")}
        wants = []
        for name, tensor in here.tensors.items():
            key = aliases.get(name, name)
            if key not in saved:
                raise CheckpointError(f"{where} has no {name!r}, which this model has; load it into the model it is of")
            local = local_of(tensor, name)
            form: Form = forms[f"model/{key}"]
            if form.shape != local.form.shape:
                raise CheckpointError(
                    f"{where}: {name!r} is {list(form.shape)} there and {list(local.form.shape)} in this model; "
                    "load it into the model it is of"
                )
            wants.append(Want(f"model/{key}", local))
        names = here.tensors.keys() | here.aliases.keys()
        if unknown := sorted((saved | aliases.keys()) - names):
            raise CheckpointError(
                f"{where} has {unknown[0]!r}, which this model does not have; load it into the model it is of"
            )
        return wants

    def _check_objects(self) -> None:
        """Every object of the run must be in the checkpoint; one that is only in the checkpoint is logged."""
        where, shared, parts = self._source.where, self._shared, self._parts
        if len(shared["schedulers"]) < len(parts.schedulers):
            raise CheckpointError(
                f"{where} has {len(shared['schedulers'])} learning-rate schedulers, this run {len(parts.schedulers)}; "
                "leave out scheduler=, or load another checkpoint"
            )
        if parts.data is not None and self._own["data"] is None:
            raise CheckpointError(f"{where} has no position of the data; leave out data=, or load another checkpoint")
        for name in parts.extras:
            if name not in shared["extras"]:
                raise CheckpointError(f"{where} has no extras[{name!r}]; leave it out, or load another checkpoint")
        unused = [f"extras[{name!r}]" for name in shared["extras"] if name not in parts.extras]
        unused += ["scheduler"] * (len(shared["schedulers"]) > len(parts.schedulers))
        unused += ["data"] * (parts.data is None and self._own["data"] is not None)
        if unused and parts.worker == 0:
            log.warning("%s has more than was asked for: %s was not loaded", where, ", ".join(unused))

    def _load_objects(self, world: World) -> None:
        """Objects whose rules are their own. If one refuses, those before it go back to what they were."""
        before: list[tuple[Stateful, Any]] = []

        def load() -> None:
            where = self._source.where
            with self._damage():
                states = [(name, one, decode(tree, self._source.tensor, where)) for name, one, tree in self._objects()]
            for name, one, state in states:
                try:
                    before.append((one, copy.deepcopy(one.state_dict())))
                    one.load_state_dict(state)
                except Exception as error:
                    raise CheckpointError(f"{where}: {name} does not take its state back: {error!r}") from error

        try:
            together(world, load)
        except Exception:
            for one, state in reversed(before):
                with suppress(Exception):  # the error that led here is the one to tell, and the others go back too
                    one.load_state_dict(state)
            raise

    def _objects(self) -> Iterator[tuple[str, Stateful, Any]]:
        """Their names, themselves, and what was saved of them."""
        for one, tree in zip(self._parts.schedulers, self._shared["schedulers"], strict=False):
            yield f"the scheduler {type(one).__name__}", one, tree
        if self._parts.data is not None:
            yield "data", self._parts.data, self._own["data"]
        for name, one in self._parts.extras.items():
            yield f"extras[{name!r}]", one, self._shared["extras"][name]

    def _load_the_rest(self) -> None:
        parts, own, source = self._parts, self._own, self._source
        state = parts.model.step_state
        others = decode(self._shared["model_extra"], source.tensor, source.where)
        if others:
            parts.model.module.load_state_dict(others, strict=False)
        state.merge.count = 0
        parts.model.zero_grad()
        state.num_updates = int(own["num_updates"])
        if state.scale is not None and own["scale"] is not None:
            state.scale.load_state_dict(own["scale"])
        self._load_mode()
        if self._is_new:
            random = decode(source.manifest.workers[0]["random"], source.tensor, source.where)
            random_states.derive(random["torch"], parts.worker, parts.device)
        else:
            random_states.restore(decode(own["random"], source.tensor, source.where), parts.device)

    def _load_mode(self) -> None:
        """A mode of the same kind goes on; another begins, from the parameters that were loaded."""
        policy, saved = self._parts.model.step_state.policy, self._shared["mode"]
        all_keys = [worker["mode"] for worker in self._source.manifest.workers]
        if policy.name == saved:
            states = [LazyTensors(self._source, keys) for keys in all_keys]
            policy.load_state_dict(cast(list[dict[str, torch.Tensor]], states), self._parts.worker)
            return
        policy.load_state_dict([policy.state_dict()] * self._parts.num_workers, self._parts.worker)
        kept = [key for keys in all_keys for key in keys.values() if self._source.form(key).size > 1]
        if kept and self._parts.worker == 0:
            where = self._source.where
            log.warning("%s was saved with %s; what that kept (such as %s) is dropped", where, saved, kept[0])

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """A manifest that lacks something it must have."""
        try:
            yield
        except FleetError:
            raise
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise CheckpointError(f"{self._source.where} is damaged: its manifest lacks {error}") from error
