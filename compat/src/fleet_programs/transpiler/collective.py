"""`GradAllReduce` and `LocalSGD`: the transpilers of jobs without servers, as classes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fleet.errors import NotSupportedError
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig
from fleet_programs.transpiler.transpiler import DistributeTranspiler


class Collective:
    """Base of both: changes a startup and a main program into those of one trainer."""

    mode: ClassVar[str]

    def __init__(self, nrings: int = 1) -> None:
        if nrings != 1:
            raise NotSupportedError(f"nrings must be 1, got {nrings}; all gradients go in one reduction")

    def transpile(
        self,
        startup_program: Program,
        main_program: Program,
        rank: int,
        endpoints: str | Sequence[str],
        current_endpoint: str,
        wait_port: bool = True,
    ) -> None:
        """Change the programs in place. Their startup waits for the other trainers, with or without `wait_port`."""
        del wait_port
        config = DistributeTranspilerConfig()
        config.mode, config.collective_mode = "collective", self.mode
        DistributeTranspiler(config).transpile(
            rank,
            program=main_program,
            startup_program=startup_program,
            trainers=endpoints if isinstance(endpoints, str) else ",".join(endpoints),
            current_endpoint=current_endpoint,
        )


class GradAllReduce(Collective):
    """Gradients are added in every step."""

    mode = "grad_allreduce"


class LocalSGD(Collective):
    """Parameters are averaged after every step."""

    mode = "local_sgd"
