"""`BuildStrategy` and `ExecutionStrategy`: how a program is compiled and run, as the reference spells it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from itertools import count
from typing import Any, ClassVar

from fleet.errors import NotSupportedError, UsageError
from fleet.strategy.unknown import unknown

_NUMBERS = count(1)
_KEYS: dict[tuple[Any, ...], int] = {}
"""A number for all settings that are alike: every run asks for it, and looking many values up takes longer."""


class _Fields:
    """Named settings with defaults; an unknown name is an error."""

    __slots__ = ("_key",)  # vars() shows the settings alone

    _defaults: ClassVar[dict[str, Any]] = {}
    _key: int

    def __init__(self, **given: Any) -> None:
        self.__setstate__(self._defaults)
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            kind = type(self).__name__
            raise unknown(kind, name, self._defaults, listed_by=f"vars({kind}())")
        checked = _checked(f"{type(self).__name__}.{name}", value, self._defaults[name])
        self.__setstate__({name: checked})

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        object.__setattr__(self, "_key", _KEYS.setdefault((type(self), *self.__dict__.values()), next(_NUMBERS)))

    @property
    def key(self) -> int:
        """What the settings are now, for caches: a number that all have that are set alike."""
        return self._key

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
    if kind is tuple:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise UsageError(f"{where} must be a list, got {value!r}")
        several = tuple(value)
        if not all(isinstance(one, str) for one in several):
            raise UsageError(f"{where} must be a list of texts, got {value!r}")
        return several
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
    reference's, of versions 1.5 to 2.0: they choose between ways to the same result (which operations are fused, in
    which order they run, over how many rings a reduction goes), and Fleet, or the library below it, chooses by itself.
    `is_distribution`, `async_mode` and `trainers_endpoints` repeat what the program of a job says already. What would
    change a result and is not built, `check` refuses.
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
        "memory_early_delete": False,
        "enable_inplace": True,
        "enable_addto": False,
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
        "fix_op_run_order": False,
        "allow_cuda_graph_capture": False,
        "enable_backward_optimizer_op_deps": True,
        "remove_unnecessary_lock": True,
        "cache_runtime_context": False,
        "sync_batch_norm": False,
        "num_trainers": 1,
        "trainer_id": 0,
        "trainers_endpoints": (),
        "is_distribution": False,
        "async_mode": False,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "hierarchical_allreduce_exter_nranks": 0,
        "mkldnn_enabled_op_types": (),
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
        "use_cuda": False,
        "allow_op_delay": False,
        "use_experimental_executor": False,
    }

    def check(self) -> None:
        if self.__dict__["num_iteration_per_run"] != 1:
            raise NotSupportedError("ExecutionStrategy.num_iteration_per_run must be 1; run the program in a loop")
