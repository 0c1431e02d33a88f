"""Sharding: stage 1 divides the optimizer's state, stages 2 and 3 gradients and parameters too (torch's FSDP2)."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from fleet.collective.modes.base import SyncPolicy, refuse_stepped
from fleet.collective.modes.reduce_grad import Buckets, ReduceGrad
from fleet.errors import NotSupportedError, UsageError
from fleet.optim.common import kind_of


@dataclass(frozen=True)
class Division:
    """What is divided, among whom, and in which pieces."""

    stage: int
    mesh: DeviceMesh
    """One dimension: all workers share. Two: copies of the model, and the workers that share one."""
    segment_bytes: int = 32 << 20
    reduce_dtype: torch.dtype | None = None
    offload: bool = False


class Sharded(SyncPolicy):
    """The model's modules, in segments of a size, each gathered before it is used.

    Stage 3 lets go of a segment's parameters after forward and gathers them again for backward; stage 2 keeps them.
    Between steps every worker holds only its share of parameters, gradients and state.
    """

    no_join = "every worker holds a part that the others need at every step"

    def __init__(self, module: nn.Module, num_workers: int, division: Division) -> None:
        super().__init__(module, num_workers)
        self.name = f"sharding stage {division.stage}"
        before = [(ref(parameter), name) for name, parameter in module.named_parameters()]
        policy = MixedPrecisionPolicy(reduce_dtype=division.reduce_dtype)
        offload = CPUOffloadPolicy() if division.offload else OffloadPolicy()
        for segment in (*segments(module, division.segment_bytes), module):
            fully_shard(
                segment,
                mesh=division.mesh,
                reshard_after_forward=division.stage == 3,
                mp_policy=policy,
                offload_policy=offload,
            )
        after = dict(module.named_parameters())
        self._successors = [(old, after[name]) for old, name in before]

    def expect(self, reduces: bool) -> None:
        assert isinstance(self.module, FSDPModule)
        self.module.set_requires_gradient_sync(reduces)

    def take(self, optimizer: Optimizer) -> Optimizer:
        """An optimizer that was made before the model was divided is given the parameters that took over."""
        refuse_stepped(optimizer, self.name)
        # Known by weak references: a parameter that nobody holds has given its memory back, and its id away.
        successors = {id(old()): new for old, new in self._successors if old() is not None}
        for group in optimizer.param_groups:
            if optimizer.state and any(id(one) in successors for one in group["params"]):
                raise UsageError(
                    f"{type(optimizer).__name__} has a state from the beginning, of whole parameters; with {self.name} "
                    "make it from the parameters of the distributed model"
                )
            group["params"] = [successors.get(id(one), one) for one in group["params"]]
        return optimizer

    def before_step(self) -> None:
        """Let go of what a forward since backward has gathered, or the next one would find the old parameters there."""
        for one in self.module.modules():
            if isinstance(one, FSDPModule):
                one.reshard()

    def reduce_now(self) -> None:
        raise NotSupportedError(
            f"{self.name} reduces gradients in backward only; after no_sync() run the last batch outside it"
        )

    def agree_on_overflow(self, flag: torch.Tensor) -> None:
        dist.all_reduce(flag, dist.ReduceOp.MAX)

    def full_state_dict(self, state: dict[str, Any]) -> dict[str, Any]:
        return {name: one.full_tensor() if isinstance(one, DTensor) else one for name, one in state.items()}

    def load_full(self, state: Mapping[str, Any], strict: bool) -> Any:
        own = self.module.state_dict()
        divided = {}
        for name, value in state.items():
            mine = own.get(name)
            if isinstance(mine, DTensor) and not isinstance(value, DTensor):
                value = distribute_tensor(value.to(mine.device), mine.device_mesh, mine.placements)
            divided[name] = value
        return self.module.load_state_dict(divided, strict=strict)


def segments(module: nn.Module, size_bytes: int) -> list[nn.Module]:
    """Modules below `module` that are gathered as one: as small as possible, but not smaller than a size.

    A module whose parameters are smaller than the size stays part of the segment around it. Modules that share a
    parameter must not be torn apart, so a module with a shared one is not taken.
    """
    owners: dict[int, int] = {}
    for one in module.modules():
        for parameter in one.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    found: list[nn.Module] = []

    def visit(parent: nn.Module) -> None:
        for child in parent.children():
            parameters = list(child.parameters())
            is_large = sum(one.nbytes for one in parameters) >= size_bytes
            if not is_large or any(owners[id(one)] > 1 for one in parameters):
                continue
            if not isinstance(child, nn.MultiheadAttention):  # it reads the weights of its parts by itself
                visit(child)
            # Containers have no forward of their own to gather before.
            if not isinstance(child, nn.ModuleList | nn.ModuleDict):
                found.append(child)

    visit(module)
    return found


class ShardedState(ReduceGrad):
    """ReduceGrad, and torch's ZeroRedundancyOptimizer over `group`: each worker updates its share and sends it."""

    name = "sharding stage 1"
    no_join = "each worker updates its share at every step"

    def __init__(
        self,
        module: nn.Module,
        num_workers: int,
        buckets: Buckets,
        group: dist.ProcessGroup | None,
    ) -> None:
        super().__init__(module, num_workers, buckets)
        self._group = group
        self.zero: ZeroRedundancyOptimizer | None = None
        self._users: Optimizer | None = None

    def take(self, optimizer: Optimizer) -> Optimizer:
        refuse_stepped(optimizer, self.name)
        accepted = inspect.signature(kind_of(optimizer).__init__).parameters
        defaults = {name: value for name, value in optimizer.defaults.items() if name in accepted}
        self._users = optimizer
        self.zero = ZeroRedundancyOptimizer(
            [dict(group) for group in optimizer.param_groups],
            optimizer_class=kind_of(optimizer),
            process_group=self._group,
            **defaults,
        )
        return self.zero

    def before_step(self) -> None:
        """Schedules and users change the groups of the user's optimizer; these are copies."""
        assert self.zero is not None
        assert self._users is not None
        for own, users in zip(self.zero.param_groups, self._users.param_groups, strict=True):
            own.update({name: value for name, value in users.items() if name != "params"})

    @property
    def local_optimizer(self) -> Any:
        """The optimizer of this worker's share."""
        assert self.zero is not None
        return self.zero.optim

    def state_owner(self, optimizer: Optimizer) -> Optimizer:  # noqa: ARG002
        own: Optimizer = self.local_optimizer
        return own
