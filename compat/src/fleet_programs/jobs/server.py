"""`listen_and_serv`: a server program runs on the same tables and service as any other server of Fleet.

The program says what this server holds and begins with; what the workers declare must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from fleet.errors import UsageError
from fleet.net import Endpoint
from fleet.ps.job.spec import JobSpec
from fleet.runtime.modules.servers import server_device
from fleet.strategy.mode import Mode
from fleet_programs.program.variable import Parameter
from fleet_programs.transpiler.planning.rules import rule_of
from fleet_programs.transpiler.planning.share import shares_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fleet_programs.definition.operator import Operator
    from fleet_programs.definition.registry import Kernel
    from fleet_programs.kernel.lowering import Lowering
    from fleet_programs.program.program import Program

    Values = list[NDArray[np.float32]]


def make(op: Operator, lowering: Lowering) -> Kernel:
    """Serve until every worker has left."""
    endpoint = Endpoint.parse(op.attr("endpoint"), "endpoint")

    def run() -> None:
        from fleet.ps.server.process import make_service, serve
        from fleet.ps.wire.trust.own_token import token_for

        described = Described(op, lowering.program, lowering.scope.tensors)
        model_dir = lowering.scope.model_dir
        name = f"server-{op.attr('pserver_id')}"
        service = make_service(name, endpoint, device=server_device(), model_dir=model_dir, opening=described.open)
        serve(service, endpoint, token_for(endpoint))

    return run


class Described:
    """What a server program says that its server holds."""

    def __init__(self, op: Operator, program: Program, tensors: dict[str, torch.Tensor]) -> None:
        self._op = op
        self._program = program
        self._tensors = tensors

    def open(self, job: JobSpec, server: int) -> Values | None:
        """The workers declare a job: UsageError if it is another one; else the first values of its dense groups.

        None if the server's startup program has not run: then worker 0 sends them.
        """
        self._compare("is server", self._op.attr("pserver_id"), server)
        self._compare("has a number of trainers", self._op.attr("Fanin"), job.num_workers)
        self._compare("is in a mode", self._op.attr("distributed_mode"), job.mode)
        self._compare("has tables", sorted(self._op.attr("tables")), sorted(spec.name for spec in job.tables))
        blocks: list[list[str]] = [[] for _ in job.dense.groups]
        for share in shares_of(job, server):
            blocks[share.group].append(share.name)
        rules = self._rules()
        self._compare("holds", sorted(rules), sorted(name for names in blocks for name in names))
        for group, names in zip(job.dense.groups, blocks, strict=True):
            for name in names:
                if job.mode != Mode.GEO:
                    self._compare(f"updates {name} by", str(rules[name]), str(group))
        if not all(name in self._tensors for names in blocks for name in names):
            return None
        return [
            np.concatenate(
                [self._tensors[name].cpu().reshape(-1).numpy() for name in names] or [np.empty(0, np.float32)]
            )
            for names in blocks
        ]

    def _rules(self) -> dict[str, object]:
        """What changes each block of a parameter: a rule or, in geo mode, a sum of differences."""
        found: dict[str, object] = {}
        for index in self._op.attr("optimize_blocks"):
            block = self._program.block(index)
            for op in block.ops:
                if op.output("ParamOut"):
                    found[op.output("ParamOut")[0]] = rule_of(op, block)
                elif op.type == "sum" and isinstance(block.var(op.output("Out")[0]), Parameter):
                    found[op.output("Out")[0]] = op.type
        return found

    def _compare(self, what: str, own: object, declared: object) -> None:
        if own != declared:
            raise UsageError(
                f"the program of server {self._op.attr('endpoint')} {what} {own}, but a worker declares {declared}; "
                "transpile the same program with the same arguments everywhere"
            )
