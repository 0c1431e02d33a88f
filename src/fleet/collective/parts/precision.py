"""What runs in which precision: autocast and the user's exceptions from it, and the loss that is scaled for float16."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from fleet.errors import StrategyError
from fleet.strategy.training import AMPConfigs

LEAST = 1.0

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class HalfPrecision:
    """Runs a model in half precision where that is safe; what it returns is float32 again."""

    def __init__(
        self,
        dtype: torch.dtype,
        device_type: str,
        always_half: Sequence[str] = (),
        never_half: Sequence[str] = (),
    ) -> None:
        self.dtype = dtype
        self._device_type = device_type
        for name in (*always_half, *never_half):
            if not any(hasattr(home, name) for home in (functional, torch, torch.Tensor)):
                raise StrategyError(
                    f"strategy.amp_configs lists {name!r}, which is no function of torch; name one, such as softmax"
                )
        self.lists = _Lists(dtype, device_type, always_half, never_half) if always_half or never_half else None
        """Functions that the user wants in one precision or the other; must be active when anything is recomputed."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.autocast(self._device_type, dtype=self.dtype))
            if self.lists is not None:
                stack.enter_context(self.lists)
            yield


class _Lists(TorchFunctionMode):
    """Runs the functions that the user named in the precision that the user wants."""

    def __init__(
        self, dtype: torch.dtype, device_type: str, always_half: Sequence[str], never_half: Sequence[str]
    ) -> None:
        super().__init__()
        self._dtype = dtype
        self._device_type = device_type
        self._half = frozenset(always_half)
        self._single = frozenset(never_half)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        wanted = torch.float32 if name in self._single else self._dtype if name in self._half else None
        if wanted is None:
            return func(*args, **(kwargs or {}))
        with torch.autocast(self._device_type, enabled=False):
            return func(*cast(args, wanted), **cast(dict(kwargs or {}), wanted))


def cast(values: Any, dtype: torch.dtype) -> Any:
    """Every floating-point tensor inside `values`, as another type."""

    def one(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return tree_map(one, values)


def whole(values: Any) -> Any:
    """Tensors in half precision inside `values` as float32."""

    def one(value: Any) -> Any:
        is_half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if is_half else value

    return tree_map(one, values)


def keep_single(module: nn.Module, parts: Sequence[str], device_type: str) -> list[str]:
    """Let the modules that own a parameter with one of `parts` in its name run in float32; returns their names."""
    for part in parts:
        if not any(part in name for name, _ in module.named_parameters()):
            raise StrategyError(
                f"strategy.amp_configs.custom_black_varnames lists {part!r}, which is in no parameter's name; "
                "leave it out or correct it"
            )
    kept = []
    for name, submodule in module.named_modules():
        own = [parameter for parameter, _ in submodule.named_parameters(name, recurse=False)]
        if any(part in parameter for part in parts for parameter in own):
            # A partial of a bound method, so that a deep copy of the model has the copy's.
            submodule.forward = partial(_in_single, submodule.forward, device_type)
            kept.append(name)
    return kept


def _in_single(forward: Callable[..., Any], device_type: str, *args: Any, **kwargs: Any) -> Any:
    with torch.autocast(device_type, enabled=False):
        return forward(*cast(args, torch.float32), **cast(kwargs, torch.float32))


class LossScale:
    """The factor of the loss: grows after a run of clean steps, shrinks after a few that overflowed.

    All workers that step together see the same gradients, so their factors stay equal.
    """

    def __init__(self, rule: AMPConfigs) -> None:
        self.rule = rule
        self.factor = rule.init_loss_scaling
        self._clean = 0
        self._overflowed = 0

    def unscale_(
        self,
        gradients: Iterable[torch.Tensor],
        agree: Callable[[torch.Tensor], None],
        device: torch.device,
        more: float = 1.0,
    ) -> bool:
        """Divide the gradients by the factor (and multiply by `more`); returns whether one is not finite.

        `agree` makes the flag equal on workers that hold different parts of the gradients.
        """
        flag = torch.zeros((), dtype=torch.float32, device=device)
        for part in _by_kind(gradients):
            found = torch.zeros((), dtype=torch.float32, device=part[0].device)
            inverse = torch.full((), more / self.factor, dtype=torch.float32, device=part[0].device)
            # Divides and looks in one pass; the same operation torch's own GradScaler uses.
            torch._amp_foreach_non_finite_check_and_unscale_(part, found, inverse)
            flag = torch.maximum(flag, found.to(device))
        agree(flag)
        return bool(flag)

    def update(self, has_overflowed: bool) -> None:
        """Adapt the factor after a step that was made, or was left out because it overflowed."""
        rule = self.rule
        if not rule.use_dynamic_loss_scaling:
            return
        if has_overflowed:
            self._clean, self._overflowed = 0, self._overflowed + 1
            if self._overflowed >= rule.decr_every_n_nan_or_inf:
                self.factor, self._overflowed = max(LEAST, self.factor * rule.decr_ratio), 0
        else:
            self._clean, self._overflowed = self._clean + 1, 0
            if self._clean >= rule.incr_every_n_steps:
                grown = self.factor * rule.incr_ratio
                self.factor, self._clean = grown if grown < 1e38 else self.factor, 0

    def state_dict(self) -> dict[str, float]:
        """The factor, and how many clean and overflowed steps it has counted."""
        return {"factor": self.factor, "clean": self._clean, "overflowed": self._overflowed}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on with what `state_dict` gave."""
        self.factor = float(state["factor"])
        self._clean, self._overflowed = int(state["clean"]), int(state["overflowed"])


def _by_kind(gradients: Iterable[torch.Tensor]) -> Sequence[list[torch.Tensor]]:
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for gradient in gradients:
        local = gradient.to_local() if hasattr(gradient, "to_local") else gradient  # a DTensor's own part
        local = local._values() if local.is_sparse else local
        kinds.setdefault((local.dtype, local.device), []).append(local)
    return list(kinds.values())
