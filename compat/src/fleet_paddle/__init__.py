"""What the names of PaddlePaddle stand for, over Fleet and torch; `paddle`, beside it, is the tables of names.

    imperative/    2.0 on tensors: layers, functions, optimizers, thin over torch
    programs/      2.0 on programs: the same names for variables of `fleet_programs`; its ops/ and layers/ are
                   families of 1.x that Fleet itself does not need
    fluid/         1.8: layers of programs that run on tensors, optimizers, schedules; dygraph/ its classes
    dataset/       the datasets of its tutorials
    batches/       from samples to batches: readers, samplers, loaders
    rows/          functions of 2.0 as rows: how each is called, on tensors and on variables
    jobs/          jobs and launchers of several versions; strategies/ their settings

The files beside them are called the same whether a script trains tensors or programs: which is meant follows from what
a call is given.

    optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())    a torch optimizer, over `imperative`
    optimizer.SGD(learning_rate=0.1).minimize(loss)                    operators, over `fleet_programs`

Where nothing tells, `mode` does: `enable_static()` and `disable_static()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet_programs.definition import extensions
from fleet_programs.expressions import callsite, methods

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable


def _find_method(variable: Variable, name: str) -> Any:
    from fleet_paddle.programs.variables.methods import find_method

    return find_method(variable, name)


def _define_operators() -> None:
    import fleet_paddle.programs.ops  # noqa: F401 - importing it defines them


callsite.leave_out(__file__)
extensions.provide(_define_operators)
methods.provide(_find_method)
