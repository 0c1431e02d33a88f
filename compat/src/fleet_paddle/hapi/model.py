"""`Model`: a network with `fit`, `evaluate` and `predict`.

    model = Model(network)
    model.prepare(Adam(parameters=model.parameters()), CrossEntropyLoss(), Accuracy())
    model.fit(train_dataset, eval_dataset, batch_size=64, epochs=2)

Started by fleetrun with several workers, each trains on its part of a dataset, and gradients come out as the mean.
After `enable_static()` the same is done by programs (`hapi.programs`).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.hapi.batches import Batches, tensors
from fleet_paddle.hapi.callbacks import CallbackList, Logs
from fleet_paddle.hapi.loading import flat, loader_of, samples_of, size_of, steps_of
from fleet_paddle.hapi.programs import ProgramBatches
from fleet_paddle.hapi.progress import ProgBarLogger
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.hapi.standard import LRScheduler, ModelCheckpoint
from fleet_paddle.hapi.summary import summary
from fleet_paddle.imperative.files import load, save
from fleet_paddle.imperative.metric import Metric
from fleet_paddle.imperative.parallel import DataParallel, get_rank, get_world_size
from fleet_paddle.jit.files import save as save_traced

__all__ = ["Model"]

Specs = InputSpec | Sequence[InputSpec] | dict[str, InputSpec] | None


class Model:
    """A network to train; `inputs` and `labels` say what a batch is made of.

    Without them a batch has the arguments of the network's `forward` first, and what follows are labels.
    """

    def __init__(self, network: torch.nn.Module, inputs: Specs = None, labels: Specs = None) -> None:
        self.network = network
        self.mode = "train"
        self.stop_training = False
        self._inputs, self._labels = _specs(inputs), _specs(labels)
        self._num_inputs = len(self._inputs) or _num_arguments(network)
        self._optimizer: Any = None
        self._loss: Any = None
        self._metrics: list[Metric] = []
        self._batches: Batches | ProgramBatches | None = None

    def prepare(self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None) -> None:
        """What trains it, what is to become small, and what is measured; `amp_configs` is a level, 'O1', or a dict."""
        if loss is not None and not callable(loss):
            raise UsageTypeError(f"Model.prepare: loss must be a layer or a function, got {type(loss).__name__}")
        several = [] if metrics is None else list(metrics) if isinstance(metrics, list | tuple) else [metrics]
        for one in several:
            if not isinstance(one, Metric):
                raise UsageTypeError(f"Model.prepare: metrics must be of paddle.metric, got {type(one).__name__}")
        self._optimizer, self._loss, self._metrics = optimizer, loss, several
        if mode.is_static():
            if amp_configs is not None:
                raise NotSupportedError("Model.prepare: amp_configs is for tensors; leave it out after enable_static()")
            self._batches = ProgramBatches(self.network, optimizer, loss, several, self._inputs, self._labels)
            return
        trained = DataParallel(self.network) if get_world_size() > 1 else self.network
        self._batches = Batches(trained, optimizer, loss, several, amp_configs)

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The network's parameters."""
        return list(self.network.parameters(*args, **kwargs))

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """One step of training: the losses, and the metrics if there are any. Without `update` gradients are kept."""
        return _told(*self._ready.train(tensors(inputs), tensors(labels), update))

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """The losses of a batch, and the metrics if there are any."""
        return _told(*self._ready.evaluate(tensors(inputs), tensors(labels)))

    def predict_batch(self, inputs: Any) -> list[Any]:
        """What the network gives, as arrays."""
        return self._ready_to_predict.predict(tensors(inputs))

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train on a dataset, a loader or anything that gives batches; evaluate after every `eval_freq` epochs.

        An optimizer's schedule is stepped after every batch, unless a callback LRScheduler says otherwise. Training
        ends after `num_iters` batches, if they are given.
        """
        if train_data is None:
            raise UsageError("Model.fit: train_data must be a dataset or a loader, got None")
        for name, every in (("eval_freq", eval_freq), ("accumulate_grad_batches", accumulate_grad_batches)):
            if every < 1:
                raise UsageError(f"Model.fit: {name} must be >= 1, got {every}")
        ready = self._ready
        loader = loader_of(train_data, batch_size, shuffle, drop_last, num_workers)
        test = None if eval_data is None else loader_of(eval_data, batch_size, False, False, num_workers)
        steps = _least(steps_of(loader), num_iters)
        told = self._called(callbacks, batch_size, epochs, steps, log_freq, verbose, save_freq, save_dir, training=True)
        self.stop_training = False
        left = num_iters
        told.begin("train")
        logs: Logs = {}
        for epoch in range(epochs):
            told.begin_epoch(epoch)
            ready.left = None
            logs = self._pass("train", loader, told, accumulate_grad_batches, left)
            left = None if left is None else left - logs["step"] - 1
            told.end_epoch(epoch, logs)
            if test is not None and epoch % eval_freq == 0:
                self._evaluated(test, told, None)
            if self.stop_training or left == 0:
                break
        told.end("train", logs)

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Losses of the last batch and metrics of all, by name."""
        loader = loader_of(eval_data, batch_size, False, False, num_workers)
        steps = _least(steps_of(loader), num_iters)
        told = self._called(callbacks, batch_size, None, steps, log_freq, verbose)
        logs = self._evaluated(loader, told, num_iters)
        return {name: logs[name] for name in self._names() if name in logs}

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """For each output of the network a list of arrays, one for each batch; with `stack_outputs` one array."""
        loader = loader_of(test_data, batch_size, False, False, num_workers)
        steps, ready = steps_of(loader), self._ready_to_predict
        told = self._called(callbacks, batch_size, None, steps, 1, verbose)
        told.begin("predict", {"steps": steps, "metrics": []})
        ready.left = samples_of(loader) if get_world_size() > 1 else None
        found, logs = [], {"samples": 0}
        for step, batch in enumerate(loader):
            told.begin_batch("predict", step, logs)
            found.append(ready.predict(tensors(flat(batch)[: self._num_inputs])))
            logs = {"step": step, "samples": logs["samples"] + len(found[-1][0])}
            told.end_batch("predict", step, logs)
        told.end("predict", logs)
        outputs = [list(several) for several in zip(*found, strict=True)]
        return [np.vstack(several) for several in outputs] if stack_outputs else outputs

    def save(self, path: str, training: bool = True) -> None:
        """Parameters at `path`.pdparams and the optimizer's state at `path`.pdopt; else the network alone, to be run.

        Worker 0 alone writes.
        """
        if get_rank() != 0:
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self._batches, ProgramBatches):
            if not training:
                raise NotSupportedError("Model.save: after enable_static() use paddle.static.save_inference_model")
            self._batches.save(path)
            return
        if not training:
            save_traced(self.network, path, self._inputs or None)
            return
        save(self.network.state_dict(), f"{path}.pdparams")
        if self._optimizer is not None:
            save(self._optimizer.state_dict(), f"{path}.pdopt")

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """What `save` wrote; with `skip_mismatch` parameters that do not fit stay as they are, with a warning."""
        stem = path.removesuffix(".pdparams")
        if isinstance(self._batches, ProgramBatches):
            if skip_mismatch or reset_optimizer:
                raise NotSupportedError(
                    "Model.load: after enable_static() all is loaded; leave skip_mismatch and reset_optimizer out"
                )
            self._batches.load(stem)
            return
        values, known = load(f"{stem}.pdparams"), self.network.state_dict()
        wrong = [
            name
            for name, one in known.items()
            if name not in values or tuple(torch.as_tensor(values[name]).shape) != tuple(one.shape)
        ]
        if wrong and not skip_mismatch:
            raise UsageError(f"Model.load: {stem}.pdparams has no {wrong[0]!r} of its shape; or set skip_mismatch")
        if wrong:
            warnings.warn(f"Model.load: left as they are: {', '.join(wrong)}", stacklevel=2)
        fitting = {name: torch.as_tensor(values[name]) for name in known if name not in wrong}
        self.network.load_state_dict(fitting, strict=False)
        state = Path(f"{stem}.pdopt")
        if self._optimizer is not None and not reset_optimizer and state.is_file():
            self._optimizer.set_state_dict(load(state))

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print the layers and their sizes; gives back the numbers of parameters."""
        if input_size is None and not self._inputs:
            raise UsageError("Model.summary: give input_size, or inputs when the Model is made")
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)

    @property
    def _ready(self) -> Batches | ProgramBatches:
        if self._batches is None:
            raise NotReadyError("Model: call prepare() before it is trained or evaluated")
        return self._batches

    @property
    def _ready_to_predict(self) -> Batches | ProgramBatches:
        if self._batches is None:
            self.prepare()
        return self._ready

    def _names(self) -> list[str]:
        """What logs and results are called."""
        found = [] if self._loss is None else ["loss"]
        for metric in self._metrics:
            name = metric.name()
            found += name if isinstance(name, list | tuple) else [name]
        return found

    def _called(
        self,
        callbacks: Any,
        batch_size: int,
        epochs: int | None,
        steps: int | None,
        log_freq: int,
        verbose: int,
        save_freq: int = 1,
        save_dir: str | None = None,
        training: bool = False,
    ) -> CallbackList:
        given = [] if callbacks is None else list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
        if verbose and not any(isinstance(one, ProgBarLogger) for one in given):
            given.insert(0, ProgBarLogger(log_freq, verbose))
        if training and not any(isinstance(one, LRScheduler) for one in given):
            given.append(LRScheduler())
        if training and not any(isinstance(one, ModelCheckpoint) for one in given):
            given.append(ModelCheckpoint(save_freq, save_dir))
        params = {
            "batch_size": batch_size,
            "epochs": epochs,
            "steps": steps,
            "verbose": verbose,
            "metrics": self._names(),
            "save_dir": save_dir,
        }
        return CallbackList(given, self, params)

    def _evaluated(self, loader: Any, told: CallbackList, num_iters: int | None) -> Logs:
        told.begin("eval", {"steps": _least(steps_of(loader), num_iters), "metrics": self._names()})
        self._ready.left = samples_of(loader) if get_world_size() > 1 else None
        logs = self._pass("eval", loader, told, 1, num_iters)
        told.end("eval", logs)
        return logs

    def _pass(self, what: str, loader: Any, told: CallbackList, every: int, most: int | None) -> Logs:
        """Once through the loader; the logs of the last batch."""
        for metric in self._metrics:
            metric.reset()
        self.mode = what
        logs: Logs = {"step": -1, "samples": 0}
        last = steps_of(loader)
        for step, batch in enumerate(loader):
            if step == most:
                break
            fields = flat(batch)
            inputs, labels = tensors(fields[: self._num_inputs]), tensors(fields[self._num_inputs :])
            told.begin_batch(what, step, logs)
            if what == "train":
                losses, _ = self._ready.train(inputs, labels, (step + 1) % every == 0 or step + 1 == last)
            else:
                losses, _ = self._ready.evaluate(inputs, labels)
            samples = size_of(fields) * get_world_size()
            logs = {"step": step, "batch_size": samples, "samples": logs["samples"] + samples}
            logs |= dict(zip(self._names(), self._measures(losses), strict=True))
            told.end_batch(what, step, logs)
        return logs

    def _measures(self, losses: list[Any]) -> list[Any]:
        found: list[Any] = [] if self._loss is None else [[float(one.reshape(-1)[0]) for one in losses]]
        for metric in self._metrics:
            value = metric.accumulate()
            found += value if isinstance(value, list | tuple) else [value]
        return found


def _specs(given: Specs) -> list[InputSpec]:
    if given is None:
        return []
    several = list(given.values()) if isinstance(given, dict) else given
    return [several] if isinstance(several, InputSpec) else list(several)


def _num_arguments(network: torch.nn.Module) -> int:
    """How many arguments `forward` has; where it takes any number, all fields of a batch but one are its inputs."""
    several = inspect.signature(network.forward).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in several):
        return -1
    return len([one for one in several if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)])


def _told(losses: list[Any], metrics: list[Any]) -> Any:
    return (losses, metrics) if metrics else losses


def _least(steps: int | None, most: int | None) -> int | None:
    return min((one for one in (steps, most) if one is not None), default=None)
