"""Dense parameters as declared: their groups, and the blocks that they are cut into, each on one server."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from fleet.errors import UsageError
from fleet.json_form import JsonForm, shown
from fleet.ps.job.checks import checked, checked_name, instance_of, refuse_twice, set_frozen
from fleet.ps.job.named_spec import A_RULE, RuleSpec
from fleet.strategy.check import Finite, Many, Maybe, Text, Whole
from fleet.strategy.parameter_server import FORMATS, VALUE_FORMATS


@dataclass(frozen=True)
class DenseBlock(JsonForm):
    """Elements `begin` to `end` of a flattened parameter, the server that holds them and the group that they are in."""

    parameter: str
    begin: int
    end: int
    server: int
    group: int

    def __post_init__(self) -> None:
        owner = f"a block of parameter {shown(self.parameter)}"
        set_frozen(
            self,
            parameter=checked_name(owner, self.parameter),
            **{
                name: checked(owner, name, getattr(self, name), Whole(least=0)) for name in ("begin", "server", "group")
            },
            end=checked(owner, "end", self.end, Whole(least=1)),
        )
        if self.begin >= self.end:
            raise UsageError(f"{owner}: begin must be below end, got {self.begin} and {self.end}")


@dataclass(frozen=True)
class DenseSpec(JsonForm):
    """The dense parameters, one rule for each group.

    The blocks cover each parameter once and in order. On a server the blocks of a group lie one after the other in the
    order of `blocks`: one flat float32 buffer for each group.
    """

    groups: tuple[RuleSpec, ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    blocks: tuple[DenseBlock, ...] = ()
    value_format: str = "float32"  # how values travel with the answer to a push
    gradient_format: str = "float32"  # how gradients travel from the workers
    topk: float | None = None  # the share of the gradients that a push has; None: all

    def __post_init__(self) -> None:
        groups = tuple(
            instance_of("dense parameters", f"groups[{index}]", rule, RuleSpec, A_RULE)
            for index, rule in enumerate(self.groups)
        )
        shapes = [
            (
                checked_name("a dense parameter", name),
                checked(f"parameter {name!r}", "shape", shape, Many(Whole(least=0))),
            )
            for name, shape in self.shapes
        ]
        refuse_twice("parameter", (name for name, _ in shapes))
        set_frozen(
            self,
            groups=groups,
            shapes=tuple(shapes),
            blocks=tuple(self.blocks),
            value_format=checked("dense parameters", "value_format", self.value_format, Text(VALUE_FORMATS)),
            gradient_format=checked("dense parameters", "gradient_format", self.gradient_format, Text(FORMATS)),
            topk=checked("dense parameters", "topk", self.topk, Maybe(Finite(above=0, below=1))),
        )
        check_cover([(name, prod(shape)) for name, shape in shapes], self.blocks)
        for block in self.blocks:
            if block.group >= len(groups):
                raise UsageError(
                    f"a block of parameter {block.parameter!r}: group must be below the number of groups, "
                    f"{len(groups)}, got {block.group}"
                )

    def size(self, server: int, group: int) -> int:
        """How many elements of a group lie on a server."""
        return self._sizes.get((server, group), 0)

    def parts(self, server: int, group: int) -> tuple[tuple[int, int], ...]:
        """What a group on a server is made of: of each block the parameter, by its place in `shapes`, and the size."""
        return self._parts.get((server, group), ())

    @cached_property
    def _parts(self) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
        places = {name: place for place, (name, _) in enumerate(self.shapes)}
        parts: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for block in self.blocks:
            found = parts.setdefault((block.server, block.group), [])
            found.append((places[block.parameter], block.end - block.begin))
        return {place: tuple(found) for place, found in parts.items()}

    @cached_property
    def _sizes(self) -> dict[tuple[int, int], int]:
        sizes: Counter[tuple[int, int]] = Counter()
        for block in self.blocks:
            sizes[block.server, block.group] += block.end - block.begin
        return dict(sizes)


def check_cover(sizes: Sequence[tuple[str, int]], blocks: Sequence[DenseBlock]) -> None:
    """UsageError unless the blocks cover each parameter, given by name and number of elements, once and in order."""
    ends = {name: 0 for name, _ in sizes}
    groups: dict[str, int] = {}
    for block in blocks:
        name = block.parameter
        if name not in ends:
            raise UsageError(f"a block names the parameter {name!r}, which is not among those declared")
        if block.begin != ends[name]:
            raise UsageError(f"parameter {name!r}: a block begins at {block.begin}, expected {ends[name]}")
        if groups.setdefault(name, block.group) != block.group:
            raise UsageError(f"parameter {name!r}: its blocks are in groups {groups[name]} and {block.group}")
        ends[name] = block.end
    for name, size in sizes:
        if ends[name] != size:
            raise UsageError(f"parameter {name!r} has {size} elements, but its blocks end at {ends[name]}")
