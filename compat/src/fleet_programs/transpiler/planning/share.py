"""A server's share of a job: its blocks of parameters, under the names that server programs give them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fleet.ps.job.placement import block_names
from fleet.ps.job.spec import JobSpec
from fleet_programs.definition.kinds import Shape
from fleet_programs.transpiler.planning.slicing import block_shape


@dataclass(frozen=True)
class Share:
    """One block of a parameter on a server."""

    parameter: str
    suffix: str
    """Of its name: `.block1`, or nothing if the parameter is whole."""
    shape: Shape
    begin: int
    """Its first element in the flattened parameter."""
    end: int
    group: int
    """The dense group that it belongs to."""
    is_alone: bool
    """Whether the server has no other block of the parameter."""

    @property
    def name(self) -> str:
        """The parameter's name and the suffix."""
        return self.parameter + self.suffix

    def of(self, accumulator: str) -> str:
        """The name of an accumulator of this block: the parameter's own, unless two blocks would share it."""
        return accumulator if self.is_alone else accumulator + self.suffix


def shares_of(job: JobSpec, server: int) -> list[Share]:
    """The blocks that a server holds, in the order of the job."""
    dense = job.dense
    shapes = dict(dense.shapes)
    counts = Counter(block.parameter for block in dense.blocks)
    here = Counter(block.parameter for block in dense.blocks if block.server == server)
    seen: Counter[str] = Counter()
    found = []
    for block in dense.blocks:
        name = block_names(block.parameter, counts[block.parameter])[seen[block.parameter]]
        seen[block.parameter] += 1
        if block.server == server:
            shape = block_shape(shapes[block.parameter], block.begin, block.end)
            suffix = name.removeprefix(block.parameter)
            is_alone = here[block.parameter] == 1
            found.append(Share(block.parameter, suffix, shape, block.begin, block.end, block.group, is_alone))
    return found
