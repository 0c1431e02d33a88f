"""What a plan is made from: a model's sizes, one measured step, the machines. Sizes are bytes, times seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.json_form import JsonForm


@dataclass(frozen=True)
class TableFacts:
    """One table, and what the measured batch asked of it."""

    name: str
    width: int
    value_bytes: int
    """The bytes of one row, without the state of its rule."""
    state_bytes: int
    """The bytes that the rule keeps for one row."""
    num_ids: int
    """Ids of the batch that were looked up."""
    num_distinct: int
    max_rows: int = 0
    max_bytes: int = 0
    """The most bytes on one server; 0: no ceiling."""
    memory: int = 0
    """The bytes on one server beyond which rows lie on its disk; 0: all are in memory."""
    cache_rows: int = 0
    """The rows of a cache where the model is; 0: there is none."""


@dataclass(frozen=True)
class DenseFacts:
    """What the model has beside tables."""

    num_values: int
    """The number of values in the trained parameters."""
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    """What a worker keeps of the optimizer's state, by formula (`planner.memory`); 0 where servers keep it."""
    other_bytes: int = 0
    """Buffers and frozen parameters."""
    server_bytes: int = 0
    """What servers hold of it, values and the state of their rules."""
    largest_bytes: int = 0
    """The bytes of the largest parameter."""


@dataclass(frozen=True)
class BlockFacts:
    """Like submodules, one after the other, such as `encoder.layers.*`: what recomputing them would save."""

    pattern: str
    saved_bytes: tuple[int, ...]
    """What each of them keeps for backward."""
    input_bytes: int
    """The bytes of all their inputs, which are kept instead."""

    @property
    def saving(self) -> int:
        """Bytes less while backward runs: all but the inputs and the one that is computed again."""
        return max(0, sum(self.saved_bytes) - self.input_bytes - max(self.saved_bytes, default=0))


@dataclass(frozen=True)
class Measured:
    """One step on this machine, as it was."""

    device: str
    """`cpu` or `cuda`."""
    threads: int
    forward_s: float
    backward_s: float
    update_s: float
    """`optimizer.step()`; with tables also the push of their gradients."""
    is_warm: bool
    """Whether the times are medians of repeated steps; else those of the very first."""
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    activation_bytes: int
    """Kept for backward, each storage once."""
    peak_bytes: int
    """The peak of GPU memory beyond what the model had before the step; 0 on a CPU."""
    process_bytes: int
    """Host memory of the whole process at its highest."""
    table_bytes: int = 0
    """What the tables in this process have come to."""

    @property
    def compute_s(self) -> float:
        """Forward, backward and update."""
        return self.forward_s + self.backward_s + self.update_s


@dataclass(frozen=True)
class Workload(JsonForm):
    """A training script, as its first step shows it."""

    model: str
    optimizer: str
    batch_size: int
    is_collective: bool
    tables: tuple[TableFacts, ...]
    dense: DenseFacts
    measured: Measured
    block: BlockFacts | None = None
    switches: tuple[str, ...] = ()
    """Fields of the strategy that the script has set to True."""
    mode: str = "off"
    """sync, async, half_async or geo where the script has chosen; else off."""
    notes: tuple[str, ...] = ()

    @property
    def cached(self) -> tuple[TableFacts, ...]:
        """Tables whose hot rows are trained where the model is."""
        return tuple(table for table in self.tables if table.cache_rows)


@dataclass(frozen=True)
class Machines:
    """Some machines that are alike."""

    num_hosts: int
    host_memory: int
    num_cores: int
    """The cores of each machine."""
    num_gpus: int = 0
    """The GPUs of each machine."""
    gpu_memory: int = 0
    """The bytes of memory of each GPU."""
    network: float = 1.25e9
    """Bytes a second between two of them, each way: 10 Gbit/s."""
    disk: int | None = None
    """Free on each host for rows; None: not known."""


@dataclass(frozen=True)
class Question:
    """What the user asks: for which machines, and how many rows the tables will have."""

    machines: Machines
    rows: Mapping[str, int] = field(default_factory=dict)
    script: tuple[str, ...] = ("train.py",)
    """As it stands on the command line, with its arguments."""
