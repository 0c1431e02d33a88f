"""What a job declares to its servers: tables, dense parameters and who holds them, as plain frozen data.

Every worker sends its `JobSpec` to every server when it starts. All declarations of a job must agree; `difference` says
where two do not. Values are checked when an object is made, so a spec that exists is a spec that can be run, except for
the names and arguments of rules, initialisers and entries, which the native core knows best. Users make those with
`fleet.rules`, `fleet.initializers` and `fleet.entries`.
"""

from dataclasses import dataclass, field

from fleet.errors import UsageError
from fleet.json_form import JsonForm, shown
from fleet.ps.job.checks import checked, checked_name, instance_of, refuse_twice, set_frozen
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.named_spec import A_RULE, AN_ENTRY, AN_INITIALIZER, EntrySpec, InitializerSpec, RuleSpec
from fleet.strategy.check import Finite, Many, Maybe, Switch, Text, Whole
from fleet.strategy.mode import Mode
from fleet.strategy.parameter_server import FORMATS

DTYPES = ("float32", "float16", "bfloat16")
# For tensors that servers only keep: what a checkpoint can hold (fleet.checkpoint.DTYPES).
KEPT_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)
MODES = tuple(str(mode) for mode in Mode if mode is not Mode.OFF)
NONFINITE = ("error", "skip")
UNSEEN = ("zeros", "initial")
ROW_BYTES = 22  # of a row, beside its values and state: key, index, counters
LEAST_MEMORY = 1 << 20  # of a table with rows on a disk: enough for its 64 shards
MAX_PROCESSES = 65536  # of one role: what placement of keys allows (csrc/keys/hash.h)


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
        name = checked_name("table", self.name)
        owner = f"table {name!r}"
        _check_unseen(owner, self.unseen, self.entry)
        set_frozen(
            self,
            name=name,
            width=checked(owner, "width", self.width, Whole(least=1)),
            rule=instance_of(owner, "rule", self.rule, RuleSpec, A_RULE),
            initializer=instance_of(owner, "initializer", self.initializer, InitializerSpec, AN_INITIALIZER),
            entry=instance_of(owner, "entry", self.entry, EntrySpec, AN_ENTRY),
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
class KeptTensor(JsonForm):
    """A tensor of the model that no step of an optimizer changes, and the server that keeps it as it is."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    server: int
    passing: int = 0  # 1: a buffer that torch does not save, so a checkpoint may lack it

    def __post_init__(self) -> None:
        name = checked_name("a kept tensor", self.name)
        owner = f"tensor {name!r}"
        set_frozen(
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
    is_elastic: bool = False  # whether workers come and go; then `num_workers` is the most that there may be
    is_summed: bool = False  # whether a synchronous step applies the sum over its workers, and not their mean

    def __post_init__(self) -> None:
        set_frozen(
            self,
            num_workers=checked("job", "num_workers", self.num_workers, Whole(least=1, most=MAX_PROCESSES)),
            num_servers=checked("job", "num_servers", self.num_servers, Whole(least=1, most=MAX_PROCESSES)),
            mode=checked("job", "mode", self.mode, Text(MODES)),
            nonfinite=checked("job", "nonfinite", self.nonfinite, Text(NONFINITE)),
            tables=tuple(
                instance_of("job", f"tables[{index}]", table, TableSpec, "fleet.ps.job.spec")
                for index, table in enumerate(self.tables)
            ),
            dense=instance_of("job", "dense", self.dense, DenseSpec, "fleet.ps.job.dense_spec"),
            kept=tuple(
                instance_of("job", f"kept[{index}]", tensor, KeptTensor, "fleet.ps.job.spec")
                for index, tensor in enumerate(self.kept)
            ),
            clip_norm=checked("job", "clip_norm", self.clip_norm, Maybe(Finite(above=0))),
            is_elastic=checked("job", "is_elastic", self.is_elastic, Switch()),
            is_summed=checked("job", "is_summed", self.is_summed, Switch()),
        )
        refuse_twice("table", (table.name for table in self.tables))
        names = Text(tuple(table.name for table in self.tables))
        set_frozen(self, first_rows=checked("job", "first_rows", self.first_rows, Many(names)))
        for table in self.tables:
            if table.memory and self.mode == "geo":
                raise UsageError(
                    f"table {table.name!r}: memory is not supported in geo mode, where workers hold copies of rows; "
                    "leave it out or choose another mode"
                )
        refuse_twice("tensor", (*(name for name, _ in self.dense.shapes), *(tensor.name for tensor in self.kept)))
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
