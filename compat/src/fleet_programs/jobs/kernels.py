"""Kernels of the operators that talk to other processes; `fleet_programs.operators.training.remote` declares them."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Kernel, MakeKernel
from fleet_programs.expressions.names import GRAD
from fleet_programs.jobs import collective, server
from fleet_programs.jobs.lookups import Reader
from fleet_programs.jobs.trainer import Trainer
from fleet_programs.kernel.lowering import Lowering


def _prefetch(op: Operator, lowering: Lowering) -> Kernel:
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    key, tables = tuple(op.output("Out")), op.attr("tables")
    reader = Reader(tables, op.attr("heights"), op.attr("padding_idx"), lowering.device)
    is_trained = any(other.type == "prefetch_grad" and _key(other) == key for other in lowering.block.ops)
    drops, is_single = op.attr("drops_last"), len(tables) == 1

    def run(*ids: torch.Tensor) -> Any:
        rows = trainer.look_up(key, tables, reader.read(ids), is_trained=is_trained)
        out = []
        for index, (found, source) in enumerate(zip(rows, ids, strict=True)):
            shape = source.shape[:-1] if drops[index] else source.shape
            out.append(found.view(*shape, found.shape[-1]))
        return out[0] if is_single else out

    return run


def _key(op: Operator) -> tuple[str, ...]:
    """The variables of the request whose gradients these are; another one may have the same ids and tables."""
    return tuple(name.split(GRAD)[0] for name in op.input("Out@GRAD"))


def _prefetch_grad(op: Operator, lowering: Lowering) -> Kernel:
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    key, count = _key(op), len(op.input("Ids"))

    def run(*tensors: torch.Tensor) -> None:
        trainer.take_gradients(key, tensors[count:])

    return run


def _check_finite(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    trainer = Trainer.of(lowering.program, lowering.scope, lowering.device)
    return lambda *gradients: trainer.check(gradients)


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


KERNELS: dict[str, MakeKernel] = {
    "prefetch": _prefetch,
    "prefetch_grad": _prefetch_grad,
    "check_finite": _check_finite,
    "send": _send,
    "recv": _recv,
    "send_barrier": _barrier,
    "fetch_barrier": _barrier,
    "listen_and_serv": server.make,
    "gen_nccl_id": collective.make_group,
    "c_broadcast": collective.make_broadcast,
    "c_allgather": collective.make_all_gather,
    "c_allreduce_sum": collective.make_all_reduce,
}


def make_kernel(op: Operator, lowering: Lowering) -> Kernel:
    """The kernel of an operator that talks to other processes."""
    return KERNELS[op.type](op, lowering)
