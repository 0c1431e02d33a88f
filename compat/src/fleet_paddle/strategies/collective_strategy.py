"""The strategy of a collective job under the names of version 1.x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.strategies.program_strategy import ProgramStrategy
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy


class CollectiveStrategy(ProgramStrategy):
    """A strategy of a collective job that has the old names as well.

    `use_local_sgd` is `localsgd`, `use_amp` is `amp`, `forward_recompute` is `recompute`. `collective_mode` says how
    workers come together. `mode` may be set to "nccl2" or "collective", which is what such a job does anyway; read, it
    is what every strategy has under that name, the mode of a job with servers. `fuse_memory_size`, if it is above 0, is
    `fuse_grad_size_in_MB`, and `amp_loss_scaling` is `amp_configs.init_loss_scaling`. The fields of BuildStrategy
    choose between ways to the same result, as they do there.
    """

    _RENAMED: ClassVar[dict[str, str]] = {
        "use_local_sgd": "localsgd",
        "use_amp": "amp",
        "forward_recompute": "recompute",
    }

    _NOT_BUILT: ClassVar[dict[str, Any]] = {"use_dist_fc": False, "dist_fc_config": None}

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_build"] = BuildStrategy()
        self.__dict__["exec_strategy"] = ExecutionStrategy()

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if name in self._RENAMED:
                setattr(self, self._RENAMED[name], value)
            elif name == "exec_strategy":
                value.check()
                self.__dict__[name] = value
            elif name in ("mode", "collective_mode"):
                self._choose(name, value)
            elif name in self._NOT_BUILT:
                if value:
                    raise NotSupportedError(f"strategy.{name} is not built; leave it out")
            elif name == "recompute_checkpoints":
                self.recompute_configs = {"checkpoints": value}
            elif name == "amp_loss_scaling":
                self.amp_configs = {"init_loss_scaling": value}
            elif name == "fuse_memory_size":
                if value > 0:
                    self.fuse_grad_size_in_MB = value
            elif name not in self._members and name in BuildStrategy._members:
                setattr(self.__dict__["_build"], name, value)
                self.__dict__["_build"].check()
            else:
                super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name in self._RENAMED:
                return getattr(self, self._RENAMED[name])
            if name in self._NOT_BUILT:
                return self._NOT_BUILT[name]
            if name == "collective_mode":
                return "local_sgd" if self.localsgd else "grad_allreduce"
            if name == "recompute_checkpoints":
                return self.recompute_configs.checkpoints
            if name == "amp_loss_scaling":
                return self.amp_configs.init_loss_scaling
            if name == "fuse_memory_size":
                return self.fuse_grad_size_in_MB
            if name in BuildStrategy._members and "_build" in self.__dict__:
                return getattr(self.__dict__["_build"], name)
            return super().__getattr__(name)

    def _choose(self, name: str, value: object) -> None:
        known = {"mode": ("nccl2", "collective"), "collective_mode": (None, "grad_allreduce", "local_sgd")}[name]
        if value not in known:
            raise UsageError(f"strategy.{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
        if name == "collective_mode":
            self.localsgd = value == "local_sgd"
