"""`fleet.distributed_model` in a collective job: the user's model, trained together with the other workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import nn

from fleet.collective import tuning
from fleet.collective.agree import check_same_model, check_same_values, refuse_lazy, share_values
from fleet.collective.compose import make_merge, make_sync_policy, needs_optimizer
from fleet.collective.nonfinite import GradientCheck
from fleet.collective.parts import precision
from fleet.collective.parts.compiling import CompileProgress, compiled
from fleet.collective.parts.precision import LossScale
from fleet.collective.parts.recompute import recompute
from fleet.collective.parts.sync_batch_norm import synchronise
from fleet.collective.stall.watch import StallWatch
from fleet.collective.step import StepState
from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    Call = Callable[..., Any]


class DistributedModel(nn.Module):
    """Behaves as the model inside, under its own names; gradients come out as the mean over the workers.

        model = fleet.distributed_model(model)
        loss = model.scale_loss(loss_fn(model(x), y))       # needed for float16 and adaptive LocalSGD, else optional
        loss.backward()                                     # the mean, once
        model.apply_collective_grads()                      # optional

    `model.module` is the model itself; training must go through the distributed one. Without gradients
    (`torch.no_grad()`) nothing is sent, so one worker may evaluate alone, except with sharding stages 2 and 3, where
    every worker holds a part. A worker's parameters and buffers are replaced by those of worker 0 when it is wrapped.
    """

    def __init__(
        self, module: nn.Module, strategy: DistributedStrategy, num_workers: int, device: torch.device
    ) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise UsageTypeError(f"model must be a torch.nn.Module, got {type(module).__name__}")
        if isinstance(module, DistributedModel):
            raise UsageTypeError("this model is distributed already; call fleet.distributed_model() once")
        if any(isinstance(one, nn.parallel.DistributedDataParallel) for one in module.modules()):
            raise UsageTypeError(
                "this model is distributed already, by DistributedDataParallel; give fleet.distributed_model() the one "
                "inside, ddp.module"
            )
        refuse_lazy(module)
        self._strategy = strategy
        worker = dist.get_rank() if num_workers > 1 else 0
        self._tuning = tuning.choose(strategy, module, device, speaks=worker == 0)
        module = self._prepare(module, device, num_workers)
        if num_workers > 1:
            check_same_model(module)
            share_values(module)
        self.module = module
        self._originals = [ref(parameter) for parameter in module.parameters()]
        policy = make_sync_policy(module, strategy, num_workers, device)
        scale = self._loss_scale()
        check = GradientCheck(policy, strategy.nonfinite_gradients == "skip", worker)
        needed = needs_optimizer(strategy, policy)
        self.step_state = StepState(policy, make_merge(strategy), scale, check, device, needed)
        self._compiled: dict[int, Call] = {}
        self._progress: CompileProgress | None = None
        if self._tuning.compile and worker == 0:
            self._progress = CompileProgress("strategy.compile" if strategy.compile else "strategy.auto")
        self._is_accumulating = False

    @property
    def _ddp_params_and_buffers_to_ignore(self) -> list[str]:
        """What DistributedDataParallel asks a module for when it wraps one: UsageError, for it averages as well."""
        raise UsageError(
            "this model is distributed by fleet.distributed_model(), and DistributedDataParallel would bring its "
            "gradients together a second time; leave the latter out"
        )

    def _prepare(self, module: nn.Module, device: torch.device, num_workers: int) -> nn.Module:
        strategy, chosen = self._strategy, self._tuning
        module = module.to(device)
        if chosen.channels_last:
            tuning.put_channels_last(module)
        if chosen.benchmark_kernels:
            torch.backends.cudnn.benchmark = True
        if chosen.tensor_floats and torch.get_float32_matmul_precision() == "highest":
            torch.set_float32_matmul_precision("high")
        if strategy.sync_batch_norm and num_workers > 1:
            module = synchronise(module, device)
        configs = strategy.amp_configs
        self._is_pure = chosen.amp and configs.use_pure_bf16
        if self._is_pure:
            module = module.to(torch.bfloat16)
        self._precision: precision.HalfPrecision | None = None
        if chosen.amp and not self._is_pure:
            precision.keep_single(module, configs.custom_black_varnames, device.type)
            named = configs.custom_white_list, configs.custom_black_list
            self._precision = precision.HalfPrecision(chosen.amp_dtype, device.type, *named)
        if strategy.recompute:
            again = strategy.recompute_configs
            lists = None if self._precision is None else self._precision.lists
            recompute(module, again.checkpoints, again.enable_offload, lists)
        return module

    def known_parameters(self) -> set[int]:
        """`id()` of every parameter that it has now or was made with."""
        alive = {id(old()) for old in self._originals if old() is not None}
        return alive | {id(parameter) for parameter in self.module.parameters()}

    @property
    def fuses(self) -> bool:
        """Whether its optimizer is to run in one kernel."""
        return self._tuning.fused_optimizer

    def _loss_scale(self) -> LossScale | None:
        if not self._tuning.amp or self._tuning.amp_dtype is not torch.float16:
            return None
        return LossScale(self._strategy.amp_configs)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the model. With gradients enabled this announces a backward, on every worker."""
        with nullcontext() if self._progress is None else self._progress.forward():
            outputs = self._run(inputs, kwargs)
        if torch.is_grad_enabled():
            self.step_state.check.see(outputs)
            if self._progress is not None:
                self._progress.backward_of(outputs)
        return outputs

    def _run(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = self.step_state
        if torch.is_grad_enabled():
            state.require_optimizer()
            state.has_run = True
            if (watch := StallWatch.running()) is not None:
                watch.num_batches += 1
            state.has_unreduced = self._is_accumulating
            state.policy.expect(state.merge.is_last and not self._is_accumulating)
            call = state.policy.training_call
        else:
            call = self.module
        if self._tuning.compile:
            call = self._compile(call)
        if self._tuning.channels_last:
            inputs, kwargs = tuning.in_channels_last((inputs, kwargs))
        try:
            return self._in_precision(call, inputs, kwargs)
        except RuntimeError as error:
            if (explained := state.policy.explain(error)) is None:
                raise
            raise explained from None

    def _in_precision(self, call: Call, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._is_pure:
            inputs, kwargs = precision.cast((inputs, kwargs), torch.bfloat16)
            return precision.whole(call(*inputs, **kwargs))
        if self._precision is None:
            return call(*inputs, **kwargs)
        with self._precision():
            outputs = call(*inputs, **kwargs)
        return precision.whole(outputs)

    def _compile(self, call: Call) -> Call:
        if id(call) not in self._compiled:
            self._compiled[id(call)] = compiled(call, self._strategy)
        return self._compiled[id(call)]

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call `backward()` on: scaled up for float16, else as it is. Never divided by their number."""
        return self.step_state.see_loss(loss)

    def apply_collective_grads(self) -> None:
        """Average gradients that `no_sync` left unreduced. Those of an ordinary backward are averaged already."""
        if not self._is_accumulating:
            self.step_state.reduce_now()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward only adds to the gradients of this worker; the next one outside reduces all of them."""
        before, self._is_accumulating = self._is_accumulating, True
        try:
            yield
        finally:
            self._is_accumulating = before

    @contextmanager
    def join(self) -> Iterator[None]:
        """Inside, workers may have different numbers of batches; one that has run out takes part until all have.

        The mean of a step is over the workers that have data. Afterwards all workers have the same parameters and the
        same optimizer state.
        """
        with self.step_state.join():
            yield

    def settle(self) -> None:
        """Make the parameters of all workers equal now, in the modes in which they may differ between steps."""
        self.step_state.check.answer()
        self.step_state.policy.settle()

    def check_in_sync(self) -> None:
        """UsageError on every worker if parameters or buffers differ between workers; for debugging."""
        check_same_values(self.module)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, unless they are part of an update that is still being merged."""
        if self.step_state.merge.count == 0:
            self.module.zero_grad(set_to_none)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The inner model's, whole tensors under its own names. With sharding every worker must call it."""
        self.step_state.check.answer()
        return self.step_state.policy.full_state_dict(self.module.state_dict(*args, **kwargs))

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load whole tensors under the inner model's own names, on every worker."""
        if assign:
            raise NotSupportedError(
                "load_state_dict(assign=True) would replace parameters that are in use; leave it out"
            )
        return self.step_state.policy.load_full(state_dict, strict)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        return self.module.named_parameters(prefix, recurse, remove_duplicate)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        return self.module.named_buffers(prefix, recurse, remove_duplicate)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(super().__getattr__("module"), name)
