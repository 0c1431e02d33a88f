"""From a block to a function: what is not needed is left out, patterns are fused, the rest becomes text (`emit`).

In a program that `memory_optimize` has seen a value is let go where it was used last; elsewhere all live until the
function returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.errors import UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.executor.bodies import body_of
from fleet_programs.executor.emit import Emitter, Step, last_uses
from fleet_programs.executor.fuse import fuse
from fleet_programs.executor.needing import needed as needed
from fleet_programs.executor.options import BuildStrategy
from fleet_programs.executor.replay import Replayed
from fleet_programs.executor.scope import Scope
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.program.block import Block
from fleet_programs.program.notes import MEMORY_NOTE


def compile_block(
    block: Block,
    feeds: Sequence[str],
    fetches: Sequence[str],
    device: torch.device,
    scope: Scope,
    build: BuildStrategy | None = None,
) -> Step:
    """Compile a block for some feeds and fetches."""
    is_handed_on = build is not None and (build.torch_compile or build.cuda_graph)
    for name in fetches:
        block.var(name)
    ops = needed(block, fetches)
    if scope.trainer is not None:
        ops = scope.trainer.with_server_lookups(ops, block)
    _check_sources(block, ops, feeds, fetches)
    ops = fuse(ops, block, fetches, on_host=device.type == "cpu" and not is_handed_on)
    if build is not None and build.cuda_graph:
        _refuse_blocks(ops)
    plan = block.program.notes.get(MEMORY_NOTE)
    if plan is None and build is not None and build.memory_optimize:
        plan = {"skip_grads": False}
    lowering = Lowering(block, device, scope, is_handed_on=is_handed_on, compile_body=body_of)
    emitter = Emitter(lowering, feeds, fetches, last_uses(ops, block, fetches, plan) if plan is not None else {})
    if build is not None and build.cuda_graph:
        step = emitter.function_of_tensors(ops)
        step.function = Replayed(step.function, step.reads, lowering.generator)
        return step
    return emitter.step(ops, with_regions=build is not None and build.torch_compile)


def _refuse_blocks(ops: Sequence[Operator]) -> None:
    for op in ops:
        if definition(op.type).blocks:
            raise UsageError(
                f"{site_of(op)}{op.type}: what runs depends on values, and a CUDA graph would replay one way; leave "
                "cuda_graph out for this program"
            )


def _check_sources(block: Block, ops: Sequence[Operator], feeds: Sequence[str], fetches: Sequence[str]) -> None:
    have, fed = set(feeds), set(feeds)
    for op in ops:
        for name in op.input_names:
            if name not in have and not block.var(name).persistable:
                raise _missing(block, name, op)
        for name in fed.intersection(op.output_names):
            raise UsageError(
                f"feed {name!r} is what {op.type} of this program writes; leave it out, or prune() the program"
            )
        have |= set(op.output_names)
    for name in fetches:
        if name not in have and not block.var(name).persistable:
            raise _missing(block, name, None)


def _missing(block: Block, name: str, op: Operator | None) -> UsageError:
    var = block.var(name)
    by = f"which {op.type} reads" if op is not None else "which is fetched"
    own = name.removesuffix("@LOD")
    if var.is_data:
        return UsageError(
            f"feed {own!r} is missing, {by}; give feed={{{own!r}: ...}} of shape {list(block.var(own).shape)}"
        )
    return UsageError(f"nothing in the program computes {name!r}, {by}; feed it, or fetch something else")
