"""Operators that talk to other processes. They are declared here and carried out by `fleet.runtime.programs`.

Parameter server: `prefetch` brings the rows of every lookup of a step, `prefetch_grad` takes their gradients back,
`send` pushes all of it, one request to each server and step. The answer to that request has the parameters of the next
step, so `send_barrier`, `recv` and `fetch_barrier` say what has happened by then rather than ask for it again. Where
trainers make the updates themselves (geo), `check_finite` looks at gradients before, as servers do elsewhere.
"""

from __future__ import annotations

from fleet.static.above import KERNELS
from fleet.static.registry import Infer, declare


def _infer_prefetch(infer: Infer) -> None:
    for index, ids in enumerate(infer.vars("Ids")):
        width = infer.attr("widths")[index]
        batch = ids.shape[:-1] if ids.shape and ids.shape[-1] == 1 and infer.attr("drops_last")[index] else ids.shape
        infer.set("Out", (*batch, width), "float32", index=index, lod=ids.lod)


declare(
    "prefetch",
    KERNELS,
    inputs=("Ids*",),
    outputs=("Out*",),
    attrs={"tables": [], "widths": [], "heights": [], "padding_idx": [], "drops_last": []},
    infer=_infer_prefetch,
    has_effect=True,
)
declare(
    "prefetch_grad",
    KERNELS,
    inputs=("Ids*", "Out@GRAD*"),
    outputs=(),
    attrs={"tables": [], "widths": [], "heights": [], "padding_idx": [], "drops_last": []},
    has_effect=True,
)
declare(
    "send",
    KERNELS,
    inputs=("X*", "LearningRate*"),
    outputs=(),
    attrs={"params": [], "endpoints": [], "trainer_id": 0},
    has_effect=True,
)
declare("check_finite", KERNELS, inputs=("X*",), outputs=(), has_effect=True)
for _barrier in ("send_barrier", "fetch_barrier"):
    declare(_barrier, KERNELS, outputs=(), attrs={"endpoints": [], "trainer_id": 0}, has_effect=True)
declare("recv", KERNELS, outputs=("Out*",), attrs={"endpoints": [], "trainer_id": 0}, has_effect=True)
declare(
    "listen_and_serv",
    KERNELS,
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
)

declare(
    "gen_nccl_id",
    KERNELS,
    outputs=(),
    attrs={"endpoint": "", "endpoints": [], "trainer_id": 0},
    has_effect=True,
)
declare("c_broadcast", KERNELS, inputs=("X*",), outputs=("Out*",), attrs={"root": 0}, has_effect=True, in_place=True)
# Gradients may share memory with each other, so the sums are new tensors.
declare("c_allreduce_sum", KERNELS, inputs=("X*",), outputs=("Out*",), has_effect=True, rebinds=True, takes_rows=True)
