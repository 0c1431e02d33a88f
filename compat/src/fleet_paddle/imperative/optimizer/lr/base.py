"""`LRScheduler`: what every schedule of learning rates is."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.imperative.optimizer.methods import apply_rate
from fleet_paddle.taking import Taking


class LRScheduler(ABC):
    """A rate that changes with `step()`; those of the optimizers it was given to change along."""

    keys: ClassVar[tuple[str, ...]] = ("last_epoch", "last_lr")
    """The attributes that a state has."""

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float):
            raise UsageTypeError(f"learning_rate must be a number, got {type(learning_rate).__name__}")
        if not learning_rate >= 0:
            raise UsageError(f"learning_rate must be >= 0, got {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.last_lr = self.base_lr
        self.verbose = verbose
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._begin()

    def _begin(self) -> None:
        self.step()

    @abstractmethod
    def get_lr(self) -> float:
        """The rate at `last_epoch`."""

    def __call__(self) -> float:
        return self.last_lr

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in vars(self).items() if name != "_optimizers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _optimizers=weakref.WeakSet())  # a copy of an optimizer attaches itself

    def attach(self, optimizer: Any) -> None:
        """Let an optimizer's rate follow."""
        self._optimizers.add(optimizer)
        apply_rate(optimizer, self.last_lr)

    def step(self, epoch: int | None = None) -> None:
        """Move on by one, or to `epoch`."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr())

    def _set(self, rate: float) -> None:
        self.last_lr = float(rate)
        for optimizer in self._optimizers:
            apply_rate(optimizer, self.last_lr)
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def state_dict(self) -> dict[str, Any]:
        """Where it is."""
        return {key: getattr(self, key) for key in self.keys}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another was."""
        missing = [key for key in self.keys if key not in state_dict]
        if missing:
            raise UsageError(f"{type(self).__name__}: the state has no {missing[0]}; give what state_dict() gave")
        for key in self.keys:
            setattr(self, key, state_dict[key])
        self._set(self.last_lr)

    set_dict = set_state_dict


class Formula(Taking, LRScheduler):
    """A schedule that says in `takes` what its settings are; each is an attribute."""

    counts: ClassVar[tuple[str, ...]] = ()
    """Settings that must be 1 at least."""

    def take(self, given: dict[str, Any]) -> None:
        """Keep the settings, checked, and begin with those that every schedule has."""
        common = [given.pop("learning_rate"), given.pop("last_epoch", -1), given.pop("verbose")]
        vars(self).update(given)
        for name in self.counts:
            self.must(given[name] >= 1, f"{name} must be >= 1, got {given[name]}")
        self.check()
        LRScheduler.__init__(self, *common)

    def check(self) -> None:
        """UsageError if the settings make no schedule."""

    def must(self, is_so: bool, rule: str) -> None:
        """UsageError with the rule and what was given, unless it is so."""
        if not is_so:
            raise UsageError(f"{type(self).__name__}: {rule}")
