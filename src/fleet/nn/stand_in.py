"""The `weight` of a module whose rows are in tables: a parameter without values, which says so to whoever wants some.

Optimizers, `requires_grad_`, `zero_grad`, clipping and summaries take it for a parameter like any other. What would
need the rows, such as a norm, or would write them, such as `fill_`, is an error: torch would do nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError

_PROPERTIES_OF_VALUES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
_WHAT_IT_IS = """
    __array__ __dir__ __format__ __hash__ __len__ __repr__ __str__ data_ptr dim element_size get_device has_names
    is_complex is_conj is_contiguous is_floating_point is_inference is_neg is_pinned is_same_size is_shared
    is_signed is_tensor ndimension nelement numel numpy size storage_offset storage_type stride tolist type
    untyped_storage
"""
_HOW_IT_IS_TRAINED = "requires_grad_ retain_grad"
_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook"})
# Their results have no elements either, and are plain tensors.
_WHERE_IT_IS_AND_ITS_LIKE = """
    as_subclass bfloat16 clone contiguous cpu cuda detach double empty_like float full_like half new_empty new_tensor
    new_zeros ones_like pin_memory rand_like randn_like record_stream share_memory_ to zeros_like
"""
_HARMLESS = frozenset(f"{_WHAT_IT_IS} {_HOW_IT_IS_TRAINED} {_WHERE_IT_IS_AND_ITS_LIKE}".split())


class RowsWeight(nn.Parameter):
    """Stands for rows that are elsewhere: shape [0, width]."""

    def __new__(cls, data: torch.Tensor, requires_grad: bool = True) -> RowsWeight:
        return torch.Tensor._make_subclass(cls, data, requires_grad)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", repr(func))
        if name in ("__get__", "__set__"):
            what = func.__self__.__name__  # type: ignore[attr-defined]
            if what in _PROPERTIES_OF_VALUES:
                raise _no_values(f".{what}")
            if name == "__set__" and what == "data" and args[1].numel():
                raise not_written(".data = tensor")
            name = what
        elif name in _HOOKS:
            raise UsageError(
                f"weight of a fleet.nn module: {name}() would never call the hook, for gradients go to the rows; take "
                "them where they are looked up: found = module(ids), found.register_hook(hook)"
            )
        elif not _is_harmless(name) and not (name == "copy_" and not args[1].numel()):  # as load_state_dict does
            raise not_written(f"{name}()") if _writes(name) else _no_values(f"{name}()")
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
            return found.as_subclass(cls) if name == "data" and isinstance(found, torch.Tensor) else found

    def __deepcopy__(self, memo: dict[int, Any]) -> RowsWeight:
        made = RowsWeight(torch.empty(self.shape, dtype=self.dtype, device=self.device), self.requires_grad)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, _: Any) -> Any:
        """As a parameter of no elements, which any process can read; the module makes a stand-in of it again."""
        empty = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        return torch._utils._rebuild_parameter, (empty, self.requires_grad, OrderedDict())

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"rows of width {self.shape[1]} in a table, requires_grad={self.requires_grad}"


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.startswith(("_is_", "_has_"))


def _writes(name: str) -> bool:
    is_special = name.startswith("__")
    return name.startswith("__i") or name == "__setitem__" if is_special else name.endswith("_")


def not_written(what: str) -> UsageError:
    """The error of a call that was to change rows by way of `weight`."""
    return UsageError(
        f"weight of a fleet.nn module: {what} would write no row, for rows are in a table; give the module "
        "initializer=, make it by Embedding.from_pretrained(), or call fleet.load_rows(module, keys, values). In a "
        "loop over parameters leave out those of numel() 0"
    )


def _no_values(what: str) -> UsageError:
    return UsageError(
        f"weight of a fleet.nn module: {what} would see no row, for rows are in a table; call the module to read rows, "
        "or fleet.gather_state_dict(model), and penalise rows by weight_decay= of their rule. In a loop over "
        "parameters leave out those of numel() 0"
    )
