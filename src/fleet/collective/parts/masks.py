"""Masks of attention that keep compiled models from torch's fused kernels, and need not (ADR 46).

Libraries make a mask inside the model, also where nothing is padded: one that hides nothing, spread out by `expand`.
Without a compiler they would leave it out, but while torch.compile looks on they cannot ask what is in a tensor. With
such a mask torch computes attention step by step, in float32. This pass over what torch.compile has seen asks: a mask
that is made of constants alone and hides nothing is left out, and any other one is laid out as the fused kernels take
it. What is computed stays the same.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import _disable_current_modes

MASK = 3
"""Which argument of attention it is."""
MOST_VALUES = 1 << 26
"""The largest constant mask that is looked at."""

_FROM_NOTHING = frozenset({"arange", "ones", "zeros", "full"})
_FROM_CONSTANTS = frozenset(
    {"add", "sub", "mul", "neg", "ge", "gt", "le", "lt", "eq", "ne", "and_", "or_", "invert", "logical_and"}
    | {"logical_or", "logical_not", "bitwise_and", "bitwise_or", "__and__", "__or__", "__invert__", "getitem"}
    | {"expand", "view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "contiguous", "to", "bool", "tril"}
    | {"triu", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full", "broadcast_to"}
)
"""Names of functions and methods that give the same whenever they are called."""
_IN_PLACE = frozenset(
    {"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor"}
    | {"ilshift", "irshift"}
)
"""Names of operators that change what they are given; methods and functions that do so end in one underscore."""


class PlainMasks(CustomGraphPass):
    """For `torch.compile(options={"pre_grad_custom_pass": ...})`."""

    def __call__(self, graph: fx.Graph) -> None:
        """Change the calls of attention in a graph."""
        known: dict[fx.Node, Any] = {}
        changed = _changed(graph)
        for node in graph.find_nodes(op="call_function", target=scaled_dot_product_attention):
            mask = node.args[MASK] if len(node.args) > MASK else node.kwargs.get("attn_mask")
            if not isinstance(mask, fx.Node):
                continue
            if _hides_nothing(mask, known, changed):
                _give(node, None)
            elif _stride(mask) not in (None, 1):
                with graph.inserting_before(node):
                    _give(node, graph.call_method("contiguous", (mask,)))
        # Not `eliminate_dead_code`, to which a change in place, as of batch norm's count, is a value that nobody needs.
        for node in reversed(known):
            if not node.users:
                graph.erase_node(node)

    def uuid(self) -> bytes:
        """What torch's cache of compiled graphs tells versions apart by."""
        return get_hash_for_files((__file__,))


def _give(node: fx.Node, mask: fx.Node | None) -> None:
    """Let a call of attention have another mask."""
    if len(node.args) > MASK:
        node.args = (*node.args[:MASK], mask, *node.args[MASK + 1 :])
    else:
        node.kwargs = {**node.kwargs, "attn_mask": mask}


def _stride(mask: fx.Node) -> int | None:
    """How far the values of a row of the mask lie apart; None if that is not known."""
    value = mask.meta.get("example_value")
    stride = value.stride(-1) if isinstance(value, torch.Tensor) and value.dim() else None
    return stride if isinstance(stride, int) else None


def _changed(graph: fx.Graph) -> frozenset[int | None]:
    """The memory of tensors that are changed after they were made; None among it stands for any memory."""
    return frozenset(
        _memory(one)
        for node in graph.nodes
        if _is_in_place(node)
        for one in (*node.all_input_nodes[:1], node.kwargs.get("out"))
        if isinstance(one, fx.Node)
    )


def _is_in_place(node: fx.Node) -> bool:
    """Whether a node may change a tensor that it is given."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    ends_so = name.endswith("_") and not name.endswith("__") and name not in _FROM_CONSTANTS  # operator.and_ does, too
    is_told = node.kwargs.get("out") is not None or node.kwargs.get("inplace") is True
    return ends_so or is_told or name.strip("_") in _IN_PLACE


def _memory(node: fx.Node) -> int | None:
    """Tells memory apart, that of views being one; None if it is not known."""
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _hides_nothing(mask: fx.Node, known: dict[fx.Node, Any], changed: frozenset[int | None]) -> bool:
    seen = mask.meta.get("example_value")
    if not isinstance(seen, torch.Tensor) or seen.dtype != torch.bool:
        return False
    if any(not isinstance(size, int) for size in seen.shape) or seen.numel() > MOST_VALUES:
        return False
    with _disable_current_modes():  # values, not the stand-ins that torch.compile works with
        try:
            return bool(_value(mask, known, changed).all())
        except _NotConstantError:
            return False


class _NotConstantError(Exception):
    """A value depends on what goes into the model, or may, or is changed later."""


def _value(what: Any, known: dict[fx.Node, Any], changed: frozenset[int | None]) -> Any:
    """The value of a node that depends on constants alone."""
    if not isinstance(what, fx.Node):
        return fx.node.map_aggregate(what, lambda one: _value(one, known, changed) if isinstance(one, fx.Node) else one)
    if what not in known:
        call, is_maker = _call(what)
        if not is_maker and not what.all_input_nodes:
            raise _NotConstantError
        if None in changed or _memory(what) in changed:
            raise _NotConstantError
        arguments = [_value(one, known, changed) for one in what.args]
        named = {name: _value(one, known, changed) for name, one in what.kwargs.items()}
        known[what] = call(*arguments, **named)
    return known[what]


def _call(node: fx.Node) -> tuple[Callable[..., Any], bool]:
    """What a node calls, and whether that makes a tensor of nothing."""
    if node.op == "call_method" and node.target in _FROM_CONSTANTS:
        return getattr(torch.Tensor, str(node.target)), False
    name = getattr(node.target, "__name__", "")
    if node.op == "call_function" and callable(node.target) and name in _FROM_NOTHING | _FROM_CONSTANTS:
        return node.target, name in _FROM_NOTHING
    raise _NotConstantError
