"""How a static program is compiled and run: `BuildStrategy` and `ExecutionStrategy`.

Many of their fields are hints of PaddlePaddle's, which change no result and nothing else here; each says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from itertools import count
from typing import Any, ClassVar

from fleet.errors import NotSupportedError
from fleet.strategy.field import switch, text, whole, words
from fleet.strategy.record import Group

_NUMBERS = count(1)
_KEYS: dict[tuple[object, ...], int] = {}
"""A number for all settings that are alike: every run asks for it, and looking many values up takes longer."""

_BY_ITSELF = "changes nothing: the Executor fuses by itself what gives the same result."
_IN_ORDER = "changes nothing: operators run in the order of the program."
_IN_PLACE = "changes nothing: torch writes in place where an operator can; `memory_optimize` frees values early."
_ONE_DEVICE = "changes nothing: a process has one device, and torch runs its operators with all its threads."
_SAID = "changes nothing: the program of a job says it already."


class ProgramOptions(Group):
    """Settings of programs. Those in `_only` have one value here: `check` refuses another when a program uses it."""

    key: int
    """What the settings are now, for caches: a number that all have that are set alike."""

    _only: ClassVar[dict[str, str]] = {}
    _alone: ClassVar[dict[str, int]] = {}
    """Values of fields in `_only` that have the outcome of the default in a program of one trainer."""

    def check(self, num_trainers: int | None = None) -> None:
        """NotSupportedError for what would change a result and is not built.

        `num_trainers` is how many have a part in the gradients of the program, where that is known.
        """
        for leaf in self.changed():
            if leaf.dotted in self._only and not (num_trainers == 1 and self._alone.get(leaf.dotted) == leaf.value):
                raise NotSupportedError(f"{self.__dict__['_path']}.{leaf.dotted} {self._only[leaf.dotted]}")

    def _keep(self, clean: Mapping[str, Any]) -> None:
        super()._keep(clean)
        said = tuple((leaf.dotted, leaf.value) for leaf in self.changed())
        self.__dict__["key"] = _KEYS.setdefault((type(self), *said), next(_NUMBERS))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._keep({})  # another process counts otherwise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{leaf.dotted}={leaf.value!r}' for leaf in self.changed())})"


class ReduceStrategy(IntEnum):
    """How gradients come together; the outcome is the same."""

    AllReduce = 0
    Reduce = 1


class GradientScaleStrategy(IntEnum):
    """What the gradient of the loss begins with."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class BuildStrategy(ProgramOptions):
    """How a program is compiled."""

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    _only: ClassVar = {
        "gradient_scale_strategy": "must be CoeffNumDevice, the mean over trainers; scale the loss in the program",
        "sync_batch_norm": "is not built for programs; leave it out. For torch modules set strategy.sync_batch_norm",
        "debug_graphviz_path": "is not built; print the program",
        "use_hierarchical_allreduce": "is not built; NCCL finds the way through the machines by itself",
        "hierarchical_allreduce_inter_nranks": "is not built; NCCL finds the way through the machines by itself",
        "hierarchical_allreduce_exter_nranks": "is not built; NCCL finds the way through the machines by itself",
    }

    _alone: ClassVar = {"gradient_scale_strategy": GradientScaleStrategy.One}

    torch_compile = switch(False, "hands the compiled program to torch.compile.")
    cuda_graph = switch(False, "records the program once for each combination of feed shapes and replays it on a GPU.")
    memory_optimize = switch(False, "frees values when nobody needs them any more.")
    num_trainers = whole(1, "is the number of trainers the program was transpiled for.", least=1)
    trainer_id = whole(0, "is the trainer the program was transpiled for.", least=0)
    gradient_scale_strategy = whole(
        0, "is 0 for the mean over trainers (CoeffNumDevice), and may be 1 (One) for one trainer.", least=0, most=2
    )
    sync_batch_norm = switch(False, "is for torch modules only; `strategy.build_strategy = ...` sets it there.")
    debug_graphviz_path = text("", "would receive a drawing of the program. It stays empty.")
    use_hierarchical_allreduce = switch(False, "stays False: NCCL finds the way through the machines by itself.")
    hierarchical_allreduce_inter_nranks = whole(0, "stays 0, as `use_hierarchical_allreduce` stays False.", least=0)
    hierarchical_allreduce_exter_nranks = whole(0, "stays 0, as `use_hierarchical_allreduce` stays False.", least=0)

    fuse_elewise_add_act_ops = switch(False, _BY_ITSELF)
    fuse_bn_act_ops = switch(False, _BY_ITSELF)
    fuse_bn_add_act_ops = switch(True, _BY_ITSELF)
    fuse_relu_depthwise_conv = switch(False, _BY_ITSELF)
    fuse_broadcast_ops = switch(False, _BY_ITSELF)
    fuse_all_optimizer_ops = switch(False, _BY_ITSELF)
    fuse_gemm_epilogue = switch(False, _BY_ITSELF)
    fuse_dot_product_attention = switch(False, _BY_ITSELF)
    fuse_resunit = switch(False, _BY_ITSELF)
    fused_attention = switch(False, _BY_ITSELF)
    fused_feedforward = switch(False, _BY_ITSELF)
    enable_auto_fusion = switch(False, _BY_ITSELF)
    fuse_all_reduce_ops = switch(True, "changes nothing: a program sends all gradients at once.")
    nccl_comm_num = whole(1, "changes nothing: a program sends all gradients at once.", least=1)
    reduce_strategy = whole(0, "changes nothing: 0 (AllReduce) and 1 (Reduce) have one outcome.", least=0, most=2)
    enable_sequential_execution = switch(False, _IN_ORDER)
    fix_op_run_order = switch(False, _IN_ORDER)
    enable_backward_optimizer_op_deps = switch(True, _IN_ORDER)
    remove_unnecessary_lock = switch(True, "changes nothing: a compiled program takes no lock.")
    cache_runtime_context = switch(False, "changes nothing: a program is compiled once for its feeds.")
    allow_cuda_graph_capture = switch(False, "changes nothing: `cuda_graph` records a program.")
    memory_early_delete = switch(False, _IN_PLACE)
    enable_inplace = switch(True, _IN_PLACE)
    enable_addto = switch(False, _IN_PLACE)
    mkldnn_enabled_op_types = words("changes nothing: torch chooses its CPU kernels.")
    is_distribution = switch(False, _SAID)
    async_mode = switch(False, _SAID)
    trainers_endpoints = words(_SAID)


class ExecutionStrategy(ProgramOptions):
    """How a compiled program is run: hints of PaddlePaddle."""

    _only: ClassVar = {"num_iteration_per_run": "must be 1; run the program in a loop"}

    num_iteration_per_run = whole(1, "is the number of iterations of one run, which is 1.", least=1)
    num_threads = whole(0, _ONE_DEVICE, least=0)
    use_thread_barrier = switch(False, _ONE_DEVICE)
    use_cuda = switch(False, "changes nothing: the Executor's place says it.")
    num_iteration_per_drop_scope = whole(10, "changes nothing: temporaries are gone when a run ends.", least=0)
    allow_op_delay = switch(False, _IN_ORDER)
    use_experimental_executor = switch(False, "changes nothing: there is one Executor.")
