"""Every optimizer of `fleet_programs.optimizer`; given parameters and a loss that are tensors, it trains them.

adam = Adam(learning_rate=0.001, parameter_list=model.parameters())
loss.backward()
adam.minimize(loss)
adam.clear_gradients()
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from fleet.errors import NotReadyError, UsageError
from fleet_paddle import mode
from fleet_paddle.fluid.rates import LearningRateDecay
from fleet_paddle.fluid.updates import Pairs, Updates, with_gradients
from fleet_paddle.imperative.optimizer.gradients import drop
from fleet_paddle.imperative.optimizer.lr import LRScheduler
from fleet_paddle.programs.optimizers import adadelta
from fleet_paddle.rates import follow
from fleet_programs import optimizer as of_programs
from fleet_programs.parameters.settings import number

SCHEDULE = "LR_Scheduler"
"""What the state of an optimizer calls that of its schedule."""


class OptimizerState(dict[str, Any]):
    """What `state_dict()` of an optimizer gives; `save_dygraph` tells it from a layer's by its class."""


if TYPE_CHECKING:
    _Optimizer = of_programs.Optimizer
else:
    _Optimizer = object  # it stands before one, which takes its arguments


class OnTensors(_Optimizer):
    """Mixed in before an optimizer of programs: the same updates for tensors.

    `learning_rate` may also be a schedule of `fluid.dygraph`, which moves on at each `minimize`, one of 2.0's, which
    the script moves, or a tensor.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        args, named, self._trained = _without_tensors(args, named)
        self._source: Any = None
        given = args[0] if args else named.get("learning_rate")
        if isinstance(given, LearningRateDecay | LRScheduler | torch.Tensor):
            self._source = given
            first = given() if isinstance(given, LRScheduler) else 0.0
            args, named = ((first, *args[1:]), named) if args else (args, {**named, "learning_rate": first})
        super().__init__(*args, **named)
        self._updates = Updates(self._added)
        self._last_rate: float | None = None
        if isinstance(given, LRScheduler) and self._trained is None and not mode.is_dynamic():
            follow(given, self)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Any]:
        """One step with the gradients that `loss.backward()` has left; for the loss of a program, its operators."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """(parameter, gradient) pairs: of tensors those that `loss.backward()` has left."""
        if not isinstance(loss, torch.Tensor):
            if isinstance(self._source, LearningRateDecay | torch.Tensor):
                raise UsageError(
                    f"{self._own_name}: this learning rate is for tensors; use layers.piecewise_decay or another of "
                    "layers for a program"
                )
            return super().backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
        if startup_program is not None or callbacks is not None:
            raise UsageError(f"{self._own_name}: startup_program and callbacks are for programs; leave them out")
        trained = self._trained if parameter_list is None else list(parameter_list)
        if trained is None:
            raise UsageError(
                f"{self._own_name}: parameter_list must be given for tensors: parameter_list=model.parameters()"
            )
        pairs = with_gradients(trained, list(no_grad_set or ()))
        if not pairs:
            raise NotReadyError(f"{self._own_name}: there are no gradients; call loss.backward() before minimize()")
        return pairs

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Any) -> list[Any]:
        """`apply_gradients`; with the loss of a program, first values go to `startup_program`."""
        if isinstance(loss, torch.Tensor):
            return self.apply_gradients(params_grads)
        return super().apply_optimize(loss, startup_program, params_grads)

    def apply_gradients(self, params_grads: Any) -> list[Any]:
        """Update tensors, and give nothing; or add the updates of a program."""
        pairs: Pairs = list(params_grads)
        if not pairs or not isinstance(pairs[0][0], torch.Tensor):
            return super().apply_gradients(pairs)
        self._last_rate = self._next_rate()
        self._updates.run(pairs, self._last_rate)
        return []

    def clear_gradients(self) -> None:
        """Drop what backward has left."""
        for one in self._trained or ():
            drop(one)

    def current_step_lr(self) -> float:
        """The rate of the last step, or before there was one that of the first."""
        if isinstance(self._source, LearningRateDecay):
            return copy.deepcopy(self._source)() if self._last_rate is None else self._last_rate
        return self._next_rate()

    def get_lr(self, scope: Any = None) -> float:
        """The present learning rate, of tensors or of the programs of a scope."""
        return self.current_step_lr() if self._is_for_tensors else super().get_lr(scope)

    def set_lr(self, value: Any, scope: Any = None) -> None:
        """Another learning rate from the next step on; one that a schedule decides cannot be set."""
        if isinstance(self._source, LearningRateDecay | LRScheduler):
            raise UsageError("set_lr: a schedule decides this optimizer's learning rate; give it a number to set it")
        if not self._is_for_tensors:
            super().set_lr(value, scope)
            return
        self._source = value if isinstance(value, torch.Tensor) else None
        if self._source is None:
            self._learning_rate = number(self._own_name, "learning rate", value, least=0)

    def state_dict(self) -> OptimizerState:
        """What the updates keep for each parameter, by name, and where the schedule is."""
        state = OptimizerState(self._updates.state())
        if isinstance(self._source, LearningRateDecay | LRScheduler):
            state[SCHEDULE] = self._source.state_dict()
        return state

    def set_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict()` gave."""
        state = dict(state_dict)
        schedule = state.pop(SCHEDULE, None)
        if isinstance(self._source, LearningRateDecay | LRScheduler):
            if schedule is None:
                raise UsageError(f"set_dict: the state has no {SCHEDULE!r}, which this optimizer's schedule needs")
            self._source.set_dict(schedule)
        self._updates.load(state)

    set_state_dict = set_dict

    @property
    def _own_name(self) -> str:
        return type(self).__name__

    @property
    def _is_for_tensors(self) -> bool:
        return self._trained is not None or mode.is_dynamic()

    def _next_rate(self) -> float:
        if self._source is not None:
            return float(self._source.item() if isinstance(self._source, torch.Tensor) else self._source())
        return float(self._learning_rate)  # type: ignore[arg-type]

    def _added(self, pairs: Any) -> str:
        """Add the updates to the program of `pairs`; the name of their rate."""
        super().apply_gradients(pairs)
        return self._rates.pop(pairs[0][0].block.program.serial)


def _without_tensors(
    args: Sequence[Any], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], list[Any] | None]:
    """The arguments without parameters that are tensors, and those; version 1.8 also takes them by place."""
    named, left, found = dict(named), [], None
    for one in args:
        if isinstance(one, list | tuple) and one and isinstance(one[0], torch.Tensor):
            found = list(one)
        else:
            left.append(one)
    given = named.get("parameter_list")
    if given is not None and not isinstance(given, str):
        several = named["parameter_list"] = list(given)
        if several and isinstance(several[0], torch.Tensor):
            found = named.pop("parameter_list")
    return tuple(left), named, found


_OWN = {"Adadelta": adadelta.Adadelta, "AdadeltaOptimizer": adadelta.Adadelta}
__all__ = [*of_programs.__all__, *_OWN]

_made: dict[type, type] = {of_programs.Optimizer: of_programs.Optimizer}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind = _OWN.get(name) or getattr(of_programs, name)
    if kind not in _made:
        arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
        own = {"__doc__": kind.__doc__, "__module__": __name__, "__signature__": inspect.Signature(arguments)}
        _made[kind] = type(kind.__name__, (OnTensors, kind), own)
    globals()[name] = _made[kind]
    return _made[kind]
