"""Operators that talk to other processes. They are declared here and carried out by whoever is the `Remote`.

Parameter server: `prefetch` brings the rows of every lookup of a step, `prefetch_grad` takes their gradients back,
`send` pushes all of it, one request to each server and step. The answer to that request has the parameters of the next
step, so `send_barrier`, `recv` and `fetch_barrier` say what has happened by then rather than ask for it again. Where
trainers make the updates themselves (geo), `check_finite` looks at gradients before, as servers do elsewhere.
"""

from __future__ import annotations

from typing import Any

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.remote import remote


def _kernel(op: Operator, lowering: Lowering) -> Kernel:
    return remote().kernel(op, lowering)


def _infer_prefetch(infer: Infer) -> None:
    for index, ids in enumerate(infer.vars("Ids")):
        width = infer.attr("widths")[index]
        batch = ids.shape[:-1] if ids.shape and ids.shape[-1] == 1 and infer.attr("drops_last")[index] else ids.shape
        infer.set("Out", (*batch, width), "float32", index=index, lod=ids.lod)


_LOOKUPS: dict[str, list[Any]] = {"tables": [], "widths": [], "heights": [], "padding_idx": [], "drops_last": []}
register(
    "prefetch",
    inputs=("Ids*",),
    outputs=("Out*",),
    attrs=_LOOKUPS,
    infer=_infer_prefetch,
    has_effect=True,
)(_kernel)
register("prefetch_grad", inputs=("Ids*", "Out@GRAD*"), outputs=(), attrs=_LOOKUPS, has_effect=True)(_kernel)
register(
    "send",
    inputs=("X*", "LearningRate*"),
    outputs=(),
    attrs={"params": [], "endpoints": [], "trainer_id": 0},
    has_effect=True,
)(_kernel)
register("check_finite", inputs=("X*",), outputs=(), has_effect=True)(_kernel)
for _barrier in ("send_barrier", "fetch_barrier"):
    register(_barrier, outputs=(), attrs={"endpoints": [], "trainer_id": 0}, has_effect=True)(_kernel)
register("recv", outputs=("Out*",), attrs={"endpoints": [], "trainer_id": 0}, has_effect=True)(_kernel)
register(
    "listen_and_serv",
    outputs=(),
    attrs={
        "endpoint": "",
        "Fanin": 1,
        "sync_mode": True,
        "pserver_id": 0,
        "optimize_blocks": [],
        "grad_to_block_id": [],
        "lr_decay_block_id": -1,
        "distributed_mode": "sync",
        "tables": [],
    },
    has_effect=True,
)(_kernel)

register(
    "gen_nccl_id",
    outputs=(),
    attrs={"endpoint": "", "endpoints": [], "trainer_id": 0},
    has_effect=True,
)(_kernel)
register("c_broadcast", inputs=("X*",), outputs=("Out*",), attrs={"root": 0}, has_effect=True, in_place=True)(_kernel)
register("c_allgather", inputs=("X",), outputs=("Out",), attrs={"nranks": 1}, has_effect=True)(_kernel)
# Gradients may share memory with each other, so the sums are new tensors.
register("c_allreduce_sum", inputs=("X*",), outputs=("Out*",), has_effect=True, rebinds=True, takes_rows=True)(_kernel)
