"""What a job declares to its servers: tables, dense parameters and who holds them, as plain frozen data.

Every worker sends its `JobSpec` to every server when it starts. All declarations of a job must agree; `difference` says
where two do not. Values are checked when an object is made, so a spec that exists is a spec that can be run, except for
the names and arguments of rules, initialisers and entries, which the native core knows best. Users make those with
`fleet.rules`, `fleet.initializers` and `fleet.entries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, ClassVar, TypeVar

from fleet.errors import UsageError
from fleet.ps.job.difference import difference as difference
from fleet.ps.job.json_form import JsonForm
from fleet.strategy.check import Check, Finite, Many, Maybe, RefusedError, Text, Whole
from fleet.strategy.field import shown
from fleet.strategy.mode import Mode
from fleet.strategy.wire import FORMATS, VALUE_FORMATS

T = TypeVar("T")

DTYPES = ("float32", "float16", "bfloat16")
# Of tensors that servers only keep: those that a checkpoint can hold (fleet.checkpoint.DTYPES).
KEPT_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)
MODES = tuple(str(mode) for mode in Mode if mode is not Mode.OFF)
NONFINITE = ("error", "skip")
UNSEEN = ("zeros", "initial")
A_RULE = "fleet.rules, for example fleet.rules.Adagrad(lr=0.1)"
AN_INITIALIZER = "fleet.initializers, for example fleet.initializers.Normal(std=0.01)"
AN_ENTRY = "fleet.entries, for example fleet.entries.CountFilterEntry(5)"
ROW_BYTES = 22  # of a row, beside its values and state: key, index, counters
LEAST_MEMORY = 1 << 20  # of a table with rows on a disk: enough for its 64 shards
MAX_PROCESSES = 65536  # of one role: what placement of keys allows (csrc/keys/hash.h)


def checked(owner: str, name: str, value: object, check: Check[T]) -> T:
    """The clean value, or a UsageError of one line: `table 'ads': width must be >= 1, got 0`."""
    try:
        return check(value)
    except RefusedError as refused:
        raise UsageError(f"{owner}: {name}{refused.where} must be {refused.must}, got {shown(refused.value)}") from None


def _name(owner: str, value: object) -> str:
    name = checked(owner, "name", value, Text())
    if not name or not name.isprintable():
        raise UsageError(f"{owner}: name must be printable text of at least one character, got {shown(name)}")
    return name


@dataclass(frozen=True)
class NamedSpec(JsonForm):
    """A name the native core knows and its arguments, sorted by name; switches are 0 or 1."""

    name: str
    args: tuple[tuple[str, float], ...] = ()

    kind: ClassVar[str] = "spec"

    def __post_init__(self) -> None:
        name = _name(self.kind, self.name)
        pairs = [tuple(pair) for pair in self.args]
        owner = f"{self.kind} {name}"
        args = {_name(owner, key): checked(owner, str(key), value, Finite()) for key, value in pairs}
        if len(args) < len(pairs):
            raise UsageError(f"{owner}: an argument is given twice among {shown([key for key, _ in pairs])}")
        _set(self, name=name, args=tuple(sorted(args.items())))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in self.args)})"


@dataclass(frozen=True)
class RuleSpec(NamedSpec):
    """How a gradient changes a row or a dense block; see `fleet.rules`."""

    kind: ClassVar[str] = "rule"


@dataclass(frozen=True)
class InitializerSpec(NamedSpec):
    """The first value of a row; see `fleet.initializers`."""

    kind: ClassVar[str] = "initializer"


@dataclass(frozen=True)
class EntrySpec(NamedSpec):
    """When a key deserves a row; see `fleet.entries`.

    `inputs` names the columns of a batch that the worker sends along with the keys: shows and clicks, or nothing.
    """

    inputs: tuple[str, ...] = ()

    kind: ClassVar[str] = "entry"

    def __post_init__(self) -> None:
        super().__post_init__()
        _set(self, inputs=checked(f"entry {self.name}", "inputs", self.inputs, Many(Text())))


@dataclass(frozen=True)
class TableSpec(JsonForm):
    """One sparse table, spread over all servers."""

    name: str
    width: int
    rule: RuleSpec
    initializer: InitializerSpec
    entry: EntrySpec
    dtype: str = "float32"  # of the stored values; rows travel as float32
    bounds: tuple[float, float] | None = None  # values are clamped to it after each update
    max_bytes: int = 0  # of one server; 0: no ceiling
    seed: int = 0
    max_rows: int = 0  # of all servers together; a worker whose push goes past it fails; 0: no ceiling
    unseen: str = "zeros"  # what a key without a row is where rows are only read: zeros, or its initial value
    max_norm: float | None = None  # rows whose norm is larger are scaled down to it, first values too
    norm_type: float | None = 2.0  # of max_norm: the p of the norm; None: the largest magnitude
    row_format: str | None = None  # how rows travel to workers; None: as the job says, which is float32 to servers
    gradient_format: str | None = None  # how gradients travel from them; None: the same
    memory: int = 0  # bytes of one server; rows beyond it lie on its disk; 0: all are in memory

    def __post_init__(self) -> None:
        name = _name("table", self.name)
        owner = f"table {name!r}"
        _check_unseen(owner, self.unseen, self.entry)
        _set(
            self,
            name=name,
            width=checked(owner, "width", self.width, Whole(least=1)),
            rule=_instance(owner, "rule", self.rule, RuleSpec, A_RULE),
            initializer=_instance(owner, "initializer", self.initializer, InitializerSpec, AN_INITIALIZER),
            entry=_instance(owner, "entry", self.entry, EntrySpec, AN_ENTRY),
            dtype=checked(owner, "dtype", self.dtype, Text(DTYPES)),
            bounds=None if self.bounds is None else _bounds(owner, self.bounds),
            max_bytes=_max_bytes(owner, self.max_bytes, self.width),
            seed=checked(owner, "seed", self.seed, Whole(least=0)),
            max_rows=checked(owner, "max_rows", self.max_rows, Whole(least=0)),
            max_norm=None if self.max_norm is None else checked(owner, "max_norm", self.max_norm, Finite(above=0)),
            norm_type=None if self.norm_type is None else checked(owner, "norm_type", self.norm_type, Finite(above=0)),
            row_format=checked(owner, "wire of rows", self.row_format, Maybe(Text(FORMATS))),
            gradient_format=checked(owner, "wire of gradients", self.gradient_format, Maybe(Text(FORMATS))),
            memory=_memory(owner, self.memory, self.max_bytes),
        )


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
        _set(
            self,
            parameter=_name(owner, self.parameter),
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

    The blocks cover each parameter once and in order. On a server those of one group lie one after the other in the
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
            _instance("dense parameters", f"groups[{index}]", rule, RuleSpec, A_RULE)
            for index, rule in enumerate(self.groups)
        )
        shapes = [
            (_name("a dense parameter", name), checked(f"parameter {name!r}", "shape", shape, Many(Whole(least=0))))
            for name, shape in self.shapes
        ]
        _once("parameter", (name for name, _ in shapes))
        _set(
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


@dataclass(frozen=True)
class KeptTensor(JsonForm):
    """A tensor of the model that no step of an optimizer changes, and the server that keeps it as it is."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    server: int
    passing: int = 0  # 1: a buffer that torch does not save, so a checkpoint may lack it

    def __post_init__(self) -> None:
        name = _name("a kept tensor", self.name)
        owner = f"tensor {name!r}"
        _set(
            self,
            name=name,
            dtype=checked(owner, "dtype", self.dtype, Text(KEPT_DTYPES)),
            shape=checked(owner, "shape", self.shape, Many(Whole(least=0))),
            server=checked(owner, "server", self.server, Whole(least=0, most=MAX_PROCESSES - 1)),
            passing=checked(owner, "passing", self.passing, Whole(least=0, most=1)),
        )


@dataclass(frozen=True)
class JobSpec(JsonForm):
    """All that servers need to know about a job."""

    num_workers: int
    num_servers: int
    mode: str
    nonfinite: str = "error"  # what a NaN or Inf in a gradient does: fails the push, or is left out of it
    tables: tuple[TableSpec, ...] = ()
    dense: DenseSpec = field(default_factory=DenseSpec)
    kept: tuple[KeptTensor, ...] = ()  # buffers, frozen parameters: what the workers have beside tables and dense
    first_rows: tuple[str, ...] = ()  # tables that begin with rows of worker 0
    clip_norm: float | None = None  # the largest norm of what one step of an optimizer applies; None: any

    def __post_init__(self) -> None:
        _set(
            self,
            num_workers=checked("job", "num_workers", self.num_workers, Whole(least=1, most=MAX_PROCESSES)),
            num_servers=checked("job", "num_servers", self.num_servers, Whole(least=1, most=MAX_PROCESSES)),
            mode=checked("job", "mode", self.mode, Text(MODES)),
            nonfinite=checked("job", "nonfinite", self.nonfinite, Text(NONFINITE)),
            tables=tuple(
                _instance("job", f"tables[{index}]", table, TableSpec, "fleet.ps.job.spec")
                for index, table in enumerate(self.tables)
            ),
            dense=_instance("job", "dense", self.dense, DenseSpec, "fleet.ps.job.spec"),
            kept=tuple(
                _instance("job", f"kept[{index}]", tensor, KeptTensor, "fleet.ps.job.spec")
                for index, tensor in enumerate(self.kept)
            ),
            clip_norm=checked("job", "clip_norm", self.clip_norm, Maybe(Finite(above=0))),
        )
        _once("table", (table.name for table in self.tables))
        names = Text(tuple(table.name for table in self.tables))
        _set(self, first_rows=checked("job", "first_rows", self.first_rows, Many(names)))
        for table in self.tables:
            if table.memory and self.mode == "geo":
                raise UsageError(
                    f"table {table.name!r}: memory is not supported in geo mode, where workers hold copies of rows; "
                    "leave it out or choose another mode"
                )
        _once("tensor", (*(name for name, _ in self.dense.shapes), *(tensor.name for tensor in self.kept)))
        places = [(f"a block of parameter {block.parameter!r}", block.server) for block in self.dense.blocks]
        places += [(f"tensor {tensor.name!r}", tensor.server) for tensor in self.kept]
        for what, server in places:
            if server >= self.num_servers:
                raise UsageError(
                    f"{what}: server must be below the number of servers, {self.num_servers}, got {server}"
                )

    @property
    def clips_on_servers(self) -> bool:
        """Whether the gradient whose norm has a limit is a mean over workers, which only the servers know."""
        return self.clip_norm is not None and self.mode == "sync" and self.num_workers > 1

    def kept_on(self, server: int) -> list[KeptTensor]:
        """The tensors that a server keeps."""
        return [tensor for tensor in self.kept if tensor.server == server]


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


def _bounds(owner: str, value: object) -> tuple[float, float]:
    pair = checked(owner, "bounds", value, Many(Finite()))
    if len(pair) != 2 or not pair[0] < pair[1]:
        raise UsageError(f"{owner}: bounds must be (low, high) with low < high, got {shown(value)}")
    return pair[0], pair[1]


def _max_bytes(owner: str, value: object, width: int) -> int:
    """A ceiling that a row fits under; below it every row would be deleted as soon as it is made."""
    ceiling = checked(owner, "max_bytes", value, Whole(least=0))
    if ceiling and ceiling < (row := 4 * width + ROW_BYTES):
        raise UsageError(f"{owner}: max_bytes is {ceiling}, and one row takes {row} bytes and more; 8 GiB are 8 << 30")
    return ceiling


def _memory(owner: str, value: object, max_bytes: int) -> int:
    memory = checked(owner, "memory", value, Whole(least=0))
    if memory and memory < LEAST_MEMORY:
        raise UsageError(f"{owner}: memory must be 0 or at least {LEAST_MEMORY} bytes, got {memory}")
    if memory and max_bytes:
        raise UsageError(
            f"{owner}: max_bytes deletes rows that memory keeps on a disk; give one, got {max_bytes} and {memory}"
        )
    return memory


def _check_unseen(owner: str, unseen: object, entry: object) -> None:
    checked(owner, "unseen", unseen, Text(UNSEEN))
    if unseen == "initial" and isinstance(entry, EntrySpec) and entry.name != "always":
        raise UsageError(
            f"{owner}: unseen must be 'zeros' with entry {entry.name}, got 'initial': an id not admitted yet reads "
            "as zeros in training too"
        )


def _instance(owner: str, name: str, value: object, kind: type[T], where: str) -> T:
    if not isinstance(value, kind):
        raise UsageError(f"{owner}: {name} must be a {kind.__name__}, got {shown(value)}; make one with {where}")
    return value


def _once(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{what} {name!r} is declared twice; give each its own name")
        seen.add(name)


def _set(target: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)  # the dataclass is frozen for everyone else
