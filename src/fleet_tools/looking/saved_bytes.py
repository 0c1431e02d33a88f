"""How many bytes autograd keeps for backward at its most, each storage counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fleet_tools.planner.facts import BlockFacts

Storage = tuple[str, int]
"""Device and address, which nothing else has while the storage is kept."""


class _Kept:
    """A tensor that autograd keeps, until this is deleted."""

    __slots__ = ("home", "storage", "tensor")

    def __init__(self, tensor: torch.Tensor, home: SavedBytes, storage: Storage) -> None:
        self.tensor, self.home, self.storage = tensor, home, storage

    def __del__(self) -> None:
        self.home.let_go(self.storage)


class SavedBytes:
    """Counts what is kept for backward between `start` and `stop`, parameters and buffers left out.

    Also which of the model's blocks, the children of a ModuleList or Sequential, have kept how much.
    """

    def __init__(self, model: nn.Module) -> None:
        self.now_bytes = 0
        self.most_bytes = 0
        self._model = model
        self._uses: dict[Storage, list[int]] = {}  # uses, bytes
        self._known = {storage_of(one) for one in (*model.parameters(), *model.buffers())}
        self._inside: list[str] = []
        self._of_block: dict[str, int] = {}
        self._inputs: dict[str, int] = {}
        self._families = dict(families(model))
        self._handles: list[Any] = []
        self._hooks: Any = None

    def start(self) -> None:
        """Begin to count. Whoever enters hooks of their own later has these back afterwards."""
        for parent, children in self._families.items():
            for name in children:
                module = self._model.get_submodule(f"{parent}.{name}" if parent else name)
                path = f"{parent}.{name}" if parent else name
                before = partial(self._enter, path)
                self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                self._handles.append(module.register_forward_hook(self._leave, always_call=True))
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda kept: kept.tensor)
        self._hooks.__enter__()

    def stop(self) -> None:
        """Count no more; idempotent."""
        for handle in self._handles:
            handle.remove()
        if self._hooks is not None:
            hooks, self._hooks = self._hooks, None
            hooks.__exit__(None, None, None)

    def block(self) -> BlockFacts | None:
        """The family of blocks whose recomputing would save the most; None if the model has none that is worth it."""
        found = []
        for parent, children in self._families.items():
            paths = [f"{parent}.{name}" if parent else name for name in children]
            saved = tuple(self._of_block.get(path, 0) for path in paths)
            inputs = sum(self._inputs.get(path, 0) for path in paths)
            found.append(BlockFacts(f"{parent}.*" if parent else "*", saved, inputs))
        best = max(found, key=lambda one: one.saving, default=None)
        return best if best is not None and best.saving > 0 else None

    def let_go(self, storage: Storage) -> None:
        """Note that one use of a storage is over."""
        entry = self._uses[storage]
        entry[0] -= 1
        if entry[0] == 0:
            self.now_bytes -= entry[1]
            del self._uses[storage]

    def _keep(self, tensor: torch.Tensor) -> _Kept:
        storage = storage_of(tensor)
        if storage not in self._uses:
            size = 0 if storage in self._known else size_of(tensor)
            self._uses[storage] = [0, size]
            self.now_bytes += size
            self.most_bytes = max(self.most_bytes, self.now_bytes)
            for path in self._inside:
                self._of_block[path] = self._of_block.get(path, 0) + size
        self._uses[storage][0] += 1
        return _Kept(tensor, self, storage)

    def _enter(self, path: str, _module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inside.append(path)
        if torch.is_grad_enabled():
            given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            self._inputs[path] = sum(map(size_of, given))

    def _leave(self, *_: Any) -> None:
        self._inside.pop()


def families(model: nn.Module) -> Iterable[tuple[str, Sequence[str]]]:
    """The ModuleLists and Sequentials with at least two children of one class that have parameters, and those."""
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1:
            kinds = {type(child) for child in module.children()}
            if len(kinds) == 1 and any(True for _ in module.parameters()):
                yield path, [name for name, _ in module.named_children()]


def storage_of(tensor: torch.Tensor) -> Storage:
    """What tensors that share memory have in common."""
    try:
        return str(tensor.device), tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a subclass without a storage of its own, such as a DTensor
        return type(tensor).__name__, id(tensor)


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of the memory that a tensor lies in, which may be larger than the tensor."""
    try:
        return tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return prod(tensor.shape) * tensor.element_size()
