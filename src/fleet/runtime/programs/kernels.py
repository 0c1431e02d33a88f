"""Kernels of the operators that talk to other processes; `fleet.static.ops.remote` declares them."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet.runtime.programs import collective, server
from fleet.runtime.programs.trainer import Trainer
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.registry import Kernel, MakeKernel


def _prefetch(op: Operator, lowering: Lowering) -> Kernel:
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    key, tables, paddings = _key(op), op.attr("tables"), op.attr("padding_idx")
    heights = op.attr("heights") if lowering.device.type == "cpu" else [0] * len(tables)  # a look would be a wait
    is_trained = any(other.type == "prefetch_grad" for other in lowering.block.ops)
    drops, is_single = op.attr("drops_last"), len(tables) == 1

    def run(*ids: torch.Tensor) -> Any:
        for index, height in enumerate(heights):
            if height and ids[index].numel():
                _check_ids(ids[index], tables[index], height)
        rows = trainer.look_up(key, tables, ids, is_trained=is_trained)
        out = []
        for index, (found, source) in enumerate(zip(rows, ids, strict=True)):
            shape = source.shape[:-1] if drops[index] else source.shape
            if paddings[index] >= 0:
                found = found.masked_fill(source.reshape(-1, 1) == paddings[index], 0.0)
            out.append(found.view(*shape, found.shape[-1]))
        return out[0] if is_single else out

    return run


def _key(op: Operator) -> tuple[str, ...]:
    """What a request and its gradients have in common."""
    return (*op.input("Ids"), *op.attr("tables"))


def _check_ids(ids: torch.Tensor, table: str, height: int) -> None:
    low, high = (int(end) for end in torch.aminmax(ids))
    if low < 0 or high >= height:
        wrong = low if low < 0 else high
        raise UsageError(
            f"id {wrong} is not in table {table!r}, whose ids are 0 to {height - 1}; give the embedding a larger size, "
            "or is_distributed=True for any ids"
        )


def _prefetch_grad(op: Operator, lowering: Lowering) -> Kernel:
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    key, paddings = _key(op), op.attr("padding_idx")
    count = len(op.input("Ids"))

    def run(*tensors: torch.Tensor) -> None:
        ids, grads = tensors[:count], list(tensors[count:])
        for index, padding in enumerate(paddings):
            if padding >= 0:
                flat = grads[index].reshape(ids[index].numel(), -1)
                grads[index] = flat.masked_fill(ids[index].reshape(-1, 1) == padding, 0.0)
        trainer.take_gradients(key, grads)

    return run


def _send(op: Operator, lowering: Lowering) -> Kernel:
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    count, names = len(op.input("X")), op.input("LearningRate")

    def run(*tensors: torch.Tensor) -> None:
        trainer.send(
            tensors[:count], {name: tensor.item() for name, tensor in zip(names, tensors[count:], strict=True)}
        )

    return run


def _recv(op: Operator, lowering: Lowering) -> Kernel:
    """Join the servers; once joined there is nothing to ask for: the answer to `send` had the parameters."""
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    names = op.output("Out")
    is_startup = not any(other.type == "send" for other in lowering.block.ops)

    def run() -> Any:
        tensors = trainer.receive(is_startup=is_startup)
        return tensors[names[0]] if len(names) == 1 else [tensors[name] for name in names]

    return run


def _barrier(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda: None  # `send` returned when the step was complete


kernels: dict[str, MakeKernel] = {
    "prefetch": _prefetch,
    "prefetch_grad": _prefetch_grad,
    "send": _send,
    "recv": _recv,
    "send_barrier": _barrier,
    "fetch_barrier": _barrier,
    "listen_and_serv": server.make,
    "gen_nccl_id": collective.make_group,
    "c_broadcast": collective.make_broadcast,
    "c_allreduce_sum": collective.make_all_reduce,
}
