"""`BuildStrategy` and `ExecutionStrategy`: how a program is compiled and run, as the reference spells it."""

from __future__ import annotations

import difflib
from enum import IntEnum
from typing import Any, ClassVar

from fleet.errors import NotSupportedError, UnknownFieldError, UsageError


class _Fields:
    """Named settings with defaults; an unknown name is an error."""

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(self._defaults)
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            near = difflib.get_close_matches(name, self._defaults, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownFieldError(f"{type(self).__name__} has no field {name!r}{hint}")
        self.__dict__[name] = _checked(f"{type(self).__name__}.{name}", value, self._defaults[name])

    def __repr__(self) -> str:
        changed = {name: value for name, value in self.__dict__.items() if value != self._defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def _checked(where: str, value: Any, default: Any) -> Any:
    """The value as the type of its default."""
    kind = type(default)
    if issubclass(kind, IntEnum):
        if value not in list(kind):
            raise UsageError(f"{where} must be one of {', '.join(kind.__members__)}, got {value!r}")
        return kind(value)
    if kind is bool and not isinstance(value, bool):
        raise UsageError(f"{where} must be True or False, got {value!r}")
    if kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise UsageError(f"{where} must be a whole number from 0, got {value!r}")
    if kind is str and not isinstance(value, str):
        raise UsageError(f"{where} must be text, got {value!r}")
    return value


class ReduceStrategy(IntEnum):
    """How gradients come together; the outcome is the same."""

    AllReduce = 0
    Reduce = 1


class GradientScaleStrategy(IntEnum):
    """What the gradient of the loss begins with."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class BuildStrategy(_Fields):
    """How a program is compiled.

    `torch_compile` hands the compiled function to torch.compile; `cuda_graph` records it once and replays it (on a GPU,
    one recording for each combination of feed shapes); `memory_optimize` frees values early. The other fields are the
    reference's: they choose between ways to the same result, and Fleet chooses by itself.
    """

    num_trainers: int
    trainer_id: int
    torch_compile: bool
    cuda_graph: bool
    memory_optimize: bool

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    _defaults: ClassVar[dict[str, Any]] = {
        "torch_compile": False,
        "cuda_graph": False,
        "memory_optimize": False,
        "enable_inplace": True,
        "reduce_strategy": ReduceStrategy.AllReduce,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "fuse_elewise_add_act_ops": False,
        "fuse_bn_act_ops": False,
        "fuse_bn_add_act_ops": True,
        "fuse_relu_depthwise_conv": False,
        "fuse_broadcast_ops": False,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": True,
        "enable_auto_fusion": False,
        "enable_sequential_execution": False,
        "enable_backward_optimizer_op_deps": True,
        "remove_unnecessary_lock": True,
        "cache_runtime_context": False,
        "sync_batch_norm": False,
        "num_trainers": 1,
        "trainer_id": 0,
        "debug_graphviz_path": "",
    }

    def check(self) -> None:
        """Refuse what would change the result and is not built."""
        if self.__dict__["gradient_scale_strategy"] != GradientScaleStrategy.CoeffNumDevice:
            raise NotSupportedError(
                "BuildStrategy.gradient_scale_strategy: only CoeffNumDevice, the mean over trainers, is built; scale "
                "the loss in the program for another"
            )
        for name in ("sync_batch_norm", "debug_graphviz_path"):
            if self.__dict__[name]:
                raise NotSupportedError(f"BuildStrategy.{name} is not built for programs; leave it out")


class ExecutionStrategy(_Fields):
    """How a compiled program is run: hints of the reference, none of which changes a result here."""

    _defaults: ClassVar[dict[str, Any]] = {
        "num_threads": 0,
        "num_iteration_per_drop_scope": 10,
        "num_iteration_per_run": 1,
        "use_thread_barrier": False,
        "allow_op_delay": False,
        "use_experimental_executor": False,
    }

    def check(self) -> None:
        if self.__dict__["num_iteration_per_run"] != 1:
            raise NotSupportedError("ExecutionStrategy.num_iteration_per_run must be 1; run the program in a loop")
