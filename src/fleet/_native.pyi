"""The C++ core (csrc/). Works on CPU buffers with the GIL released; returns numpy arrays that own their memory.

Every array argument is a numpy array or a CPU torch tensor, C-contiguous, and is neither copied nor converted:
another dtype is a TypeError, another layout, shape or device a ValueError. It must not change while a call runs: a
write from another thread in the meantime gives a wrong result or a crash.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import Buffer

_Keys = npt.NDArray[np.int64] | torch.Tensor
_Floats = npt.NDArray[np.float32] | torch.Tensor
_Int32s = npt.NDArray[np.int32] | torch.Tensor
_Push = tuple[_Keys, _Floats, npt.NDArray[np.uint32] | None, _Floats | None, _Floats | None]

def set_threads(num_threads: int) -> None:
    """Say on how many threads one call may work, the caller's among them: 1 to 256.

    Results do not depend on it. Unless it is called: the cores that this process may use, 8 at most.
    """

def rouse(microseconds: int) -> None:
    """Have the threads that share the next calls wake up now and wait without sleep for so long: 0 to 100,000.

    For who knows that a call comes soon: to wake threads first takes longer than what they do of a small one.
    """

def num_threads() -> int:
    """Return on how many threads one call may work."""

def unique(keys: _Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (distinct, inverse): the distinct keys in ascending order, and distinct[inverse] == keys."""

def sum_pushes(pushes: Sequence[_Push], width: int) -> _Push:
    """Return several pushes of one table as one, with each key once, ascending; see `Table.push_all`.

    Gradients and counters of equal keys are added in the order of the pushes. Counts, shows and clicks are None where
    no push has any, but where there are several pushes counts are always there.
    """

def split(keys: _Keys, num_servers: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (grouped, order, offsets): keys grouped by server, stable within a server.

    Server s holds grouped[offsets[s]:offsets[s + 1]], and grouped == keys[order].
    """

def route(
    keys: _Keys, num_servers: int, counts: bool = False
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint32] | None]:
    """Return (grouped, inverse, offsets, counts): `unique` and `split` in one.

    Server s holds the distinct keys grouped[offsets[s]:offsets[s + 1]], in ascending order, and grouped[inverse] ==
    keys. `counts`, if asked for, says how often each of `grouped` occurs.
    """

def server_of(keys: _Keys, num_servers: int) -> npt.NDArray[np.int64]:
    """Return the server, in 0..num_servers - 1, that holds each key; never changes (csrc/keys/hash.h)."""

def merge(pieces: Sequence[npt.NDArray[Any] | torch.Tensor], order: _Keys) -> npt.NDArray[Any]:
    """Return rows with rows[order[i]] = row i of all pieces, taken one after the other.

    Pieces have shape [n] or [n, width] and share dtype and width. `order` names every row of the result once.
    """

def gather(rows: _Floats, inverse: _Keys, out: _Floats) -> None:
    """Write out[i] = rows[inverse[i]], or for an inverse of shape [slots, batch] out[b, s] = rows[inverse[s, b]].

    Rows are float32 [num_rows, width]; out is float32 [n, width], or [batch, slots * width] with slot s in columns
    s * width on. The rows of out may lie apart: it may be some columns of a wider matrix. An inverse that names no row
    is a ValueError; nothing is written then.
    """

def scatter(grad_out: _Floats, inverse: _Keys, grad_rows: _Floats) -> None:
    """Add to grad_rows[inverse[i]] the gradient grad_out[i]: the inverse of `gather`, with the same shapes.

    In the order of grad_out's memory (sample by sample, slot by slot within one), so always the same bits. The rows of
    grad_out may lie apart.
    """

def pool_bags(
    rows: _Floats,
    inverse: _Keys,
    offsets: _Keys,
    out: _Floats,
    mean: bool,
    include_last_offset: bool,
    padding: int = -1,
) -> None:
    """Write to out[b] the sum or mean of rows[inverse[offsets[b]:offsets[b + 1]]]; zeros for an empty bag.

    The last bag runs to the end of inverse, or with `include_last_offset` to the last offset, as in torch's
    EmbeddingBag. The rows of out may lie apart. Row `padding`, which must be zeros, does not count in a mean.
    """

def unpool_bags(
    grad_out: _Floats,
    inverse: _Keys,
    offsets: _Keys,
    grad_rows: _Floats,
    mean: bool,
    include_last_offset: bool,
    padding: int = -1,
) -> None:
    """Add to grad_rows the gradients of `pool_bags`, bag by bag: always the same bits."""

def pool_weighted(
    rows: _Floats, inverse: _Keys, offsets: _Keys, weights: _Floats, out: _Floats, include_last_offset: bool
) -> None:
    """Write to out[b] the sum of weights[i] * rows[inverse[i]] over the entries i of bag b; see `pool_bags`."""

def unpool_weighted(
    grad_out: _Floats, inverse: _Keys, offsets: _Keys, weights: _Floats, grad_rows: _Floats, include_last_offset: bool
) -> None:
    """Add to grad_rows the gradients of `pool_weighted`, bag by bag: always the same bits."""

def grade_weights(
    grad_out: _Floats, inverse: _Keys, offsets: _Keys, rows: _Floats, grad_weights: _Floats, include_last_offset: bool
) -> None:
    """Write to grad_weights[i] the product of rows[inverse[i]] and the gradient of the bag that holds entry i."""

def compress(
    grad: _Floats,
    weight: _Floats | None,
    momentum: _Floats,
    sum: _Floats,
    index: _Int32s,
    value: _Floats,
    *,
    scale: float,
    decay: float,
    mu: float,
    nesterov: bool,
    seed: int,
) -> int:
    """Add a gradient to what was not sent yet, take out the len(index) values farthest from zero; return how many.

    With d = scale * grad + decay * weight: momentum = mu * momentum + d; sum += momentum, or with nesterov d + mu *
    momentum. The places and values taken from `sum` are written to index and value in ascending order; momentum and sum
    are zero there afterwards, grad everywhere. Fewer than len(index) are taken where fewer are not zero; of equals the
    first. Arrays have one dimension and must not share memory; weight may be None if decay is 0. `seed` changes only
    which values are looked at first.
    """

def encode_rows(
    rows: _Floats, format: int, keys: _Keys | None = None, seed: int = 0, step: int = 0
) -> npt.NDArray[np.uint8]:
    """Return rows [n, width] in a format of the wire (csrc/compress/format.h), [n, bytes of a row].

    `format` is its number: 0 float32, 1 bfloat16, 2 float16, 3 int8. To the nearest; with `keys`, float16 and int8 up
    or down by chance, which is a function of (seed, key, step, place in the row) alone.
    """

def decode_rows(data: npt.NDArray[Any], format: int, rows: int, width: int) -> npt.NDArray[np.float32]:
    """Return the rows [rows, width] that `data` is, whatever its dtype; ValueError if it has other bytes than those."""

def encode_vector(values: _Floats, residual: _Floats | None, format: int) -> npt.NDArray[np.uint8]:
    """Return values + residual in a format of the wire; the residual becomes what the receiver does not get of it."""

def decode_vector(data: npt.NDArray[Any], format: int, size: int) -> npt.NDArray[np.float32]:
    """Return the `size` values that `data` is; ValueError if it has other bytes than those."""

def take_largest(
    grad: _Floats, sum: _Floats, most: int, *, seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Add a gradient to a sum, and take out the `most` values farthest from zero; return (places, values), ascending.

    The sum is zero there afterwards. Fewer where fewer are not zero; of equals the first; a NaN before every number.
    `seed` changes only which values are looked at first.
    """

def spread(index: _Int32s, value: _Floats, size: int) -> npt.NDArray[np.float32]:
    """Return `size` zeros with value[i] at index[i]; ValueError unless places ascend and are below `size`."""

def parse_multislot(
    text: npt.NDArray[np.uint8],
    is_last: bool,
    slots: Sequence[tuple[str, str, int]],
    has_id: bool = False,
    has_content: bool = False,
) -> tuple[
    int,
    int,
    int,
    npt.NDArray[np.int64] | None,
    list[tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]],
    tuple[int, str, str] | None,
]:
    """Return (consumed, lines, records, ids, columns, problem) of the whole lines of MultiSlot text.

    A slot is (name, type, width): type f, d or i for float32, float64 or int64; width 0 for a ragged one. Its column is
    (values [records, width], None) or (values [n], offsets [records + 1]). With `has_id` and `has_content` a line
    begins with `1 text` for each; `ids` are hashes. `consumed` bytes were read: what follows the last newline is left,
    unless `is_last`. A problem is (line from 0, what, remedy), and there are no columns then (csrc/data/multislot.h).
    """

def take_ragged(
    values: npt.NDArray[Any], offsets: npt.NDArray[np.int64], index: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return (values, offsets) of the records `index` names; a record r is values[offsets[r]:offsets[r + 1]]."""

def slot_seed(slot: str) -> int:
    """Return what goes into the hash of a slot's texts; never changes (csrc/data/hash_text.h)."""

def hash_text(
    seed: int, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the id of each text[offsets[i]:offsets[i + 1]] of a slot: 63 bits, the same on every machine."""

def hash_numbers(seed: int, numbers: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the id of each integer of a slot: that of its decimal text."""

def signed_log(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return sign(x) * log(1 + |x|) of each number, to the bit as numbers in text have it; NaN stays NaN."""

def count_lines(text: npt.NDArray[np.uint8]) -> int:
    """Return how many lines a text has; the last one needs no newline."""

class DelimitedText:
    """How lines of delimited text become columns (csrc/data/delimited.h). Made once, then used by any threads.

    Readings of one kind fill their matrix in the order of their calls. `kind` of ids: h for the hash of the slot that
    `seed` stands for, p for plain integers, b for the part between two `bounds`; `gap` is the id of a gap, or what
    fills up a row of a bag with a `length`.
    """

    def __init__(self, num_columns: int, delimiter: str, quotes: bool) -> None: ...
    def add_label(self, column: int, name: str) -> None: ...
    def add_weight(self, column: int, name: str) -> None: ...
    def add_number(self, column: int, name: str, log: bool, missing: float, rounds: bool = True) -> None:
        """Add a float32; unless it `rounds`, a number whose whole part that changes is an error."""

    def add_double(self, column: int, name: str, missing: float) -> None: ...
    def add_text(self, column: int, name: str) -> None: ...
    def add_gap(self, text: str) -> None:
        """Let fields and values of bags with this text be gaps, as those without a byte are."""

    def keep_begins(self) -> None:
        """Let `parse` give the first byte of each record."""

    def add_id(
        self, column: int, name: str, kind: str, seed: int, bounds: Sequence[float], gap: int, has_gap: bool = True
    ) -> None:
        """Add ids. Without `has_gap` a gap is an error."""

    def add_bag(
        self,
        column: int,
        name: str,
        kind: str,
        seed: int,
        bounds: Sequence[float],
        gap: int,
        separator: str,
        length: int,
    ) -> None: ...
    def parse(
        self, text: npt.NDArray[np.uint8]
    ) -> tuple[
        int,
        int,
        npt.NDArray[np.float32],
        npt.NDArray[np.float32],
        npt.NDArray[np.int64],
        npt.NDArray[np.float32],
        list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]],
        list[tuple[int, int, str]],
        npt.NDArray[np.float64],
        list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]],
        npt.NDArray[np.int64],
    ]:
        """Return (lines, records, labels, numbers, ids, weights, bags, bad, doubles, texts, begins) of whole lines.

        A bag is (values [n], offsets [records + 1]), or (matrix [records, length], None). A bad line, which is no
        record, is (line from 0, first byte, what); the first of them are there. A text column is (bytes, offsets
        [records + 1]), with a newline behind each text.
        """

def crc32c(data: Buffer | npt.NDArray[Any], start: int = 0) -> int:
    """Return the CRC-32C of bytes that follow bytes whose CRC-32C is `start`.

    `data` is bytes, a memoryview, a numpy array or another contiguous object that shows its memory.
    """

def add_bias_and_tanh(values: _Floats, bias: _Floats) -> None:
    """Write values[r, c] = tanh(values[r, c] + bias[c]), within 4e-7 of the exact result, relatively."""

class Rule:
    """How a gradient changes values (csrc/rule/rule.h), on dense buffers of one dimension.

    The state of n values is the rule's arrays of n floats, one after the other, then its scalars.
    """

    def __init__(self, name: str, args: Mapping[str, float]) -> None:
        """Make the rule; booleans are 0 and 1. A ValueError names what is unknown, missing or bad."""

    @property
    def lr(self) -> float:
        """The rate it was made with."""

    def state_width(self, n: int) -> int:
        """Return how many floats of state n values need."""

    def start(self, n: int) -> npt.NDArray[np.float32]:
        """Return the state of n new values."""

    def apply(self, values: _Floats, state: _Floats, grads: _Floats, lr: float) -> None:
        """Make one update of values and state, in place; the three must not share memory."""

def initialize(
    name: str, args: Mapping[str, float], seed: int, table: str, keys: _Keys, width: int
) -> npt.NDArray[np.float32]:
    """Return the first values of rows, [len(keys), width]; never changes (csrc/init/initializer.h)."""

def all_finite(values: _Floats) -> bool:
    """Return whether no value is a NaN or an Inf."""

def largest(values: _Floats) -> float:
    """Return the largest magnitude, 0 of none; Inf also for a NaN."""

class Table:
    """Rows by int64 key, in 64 shards with a lock each. A pull never changes it (csrc/table/table.h)."""

    num_shards: int
    def __init__(
        self,
        name: str,
        width: int,
        rule: str,
        rule_args: Mapping[str, float],
        initializer: str,
        initializer_args: Mapping[str, float],
        entry: str,
        entry_args: Mapping[str, float],
        dtype: str = "float32",
        bounds: tuple[float, float] | None = None,
        max_bytes: int = 0,
        seed: int = 0,
        max_norm: float | None = None,
        norm_type: float | None = 2.0,
        memory_bytes: int = 0,
        folder: str = "",
    ) -> None:
        """Make an empty table; `norm_type` None stands for the largest magnitude.

        With `memory_bytes` rows that do not fit into it lie in files of `folder`, which nobody else may use; OSError,
        from any method, for what the disk refuses.
        """
    @property
    def name(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def state_width(self) -> int:
        """Floats of state beside the values of a row."""
    @property
    def has_clicks(self) -> bool:
        """Whether shows and clicks of each key are kept."""
    @property
    def counts(self) -> bool:
        """Whether keys without a row are counted: then a push should say how often each key occurred."""
    @property
    def num_waiting(self) -> int:
        """Keys that were seen but have no row."""
    @property
    def newest_step(self) -> int:
        """The largest step of any row or waiting key, 0 if there is none; looks at all of them."""
    @property
    def memory_bytes(self) -> int: ...
    @property
    def all_bytes(self) -> int:
        """What all rows would take in memory, wherever they are."""
    @property
    def has_disk(self) -> bool:
        """Whether rows may lie in files."""
    def tier_counts(self) -> dict[str, int]:
        """Return how much is where (hot_rows, cold_rows, files, disk_bytes, index_bytes) and what went by the disk."""
    def __len__(self) -> int: ...
    def pull(self, keys: _Keys, zeros: bool = False) -> npt.NDArray[np.float32]:
        """Return the rows of the keys, [n, width].

        A key without a row gives its first value; zeros if they are asked for, or if the entry policy may refuse it.
        """

    def pull_to(self, keys: _Keys, rows: _Floats, zeros: bool = False) -> None:
        """Write what `pull` returns into `rows`."""

    def push(
        self,
        keys: _Keys,
        grads: _Floats,
        *,
        step: int,
        lr: float,
        counts: npt.NDArray[np.uint32] | None = None,
        shows: _Floats | None = None,
        clicks: _Floats | None = None,
        scale: float = 1.0,
        skip_nonfinite: bool = False,
        skip_shards: int = 0,
    ) -> dict[str, int]:
        """Add the gradients of equal keys, multiply by `scale` and apply the rule once to each row.

        Returns how many rows were created, how many keys are waiting, how many rows were skipped for a NaN or an Inf,
        how many were evicted. A NaN that may not be skipped is a ValueError, and nothing is applied. Bit s of
        `skip_shards`: shard s stays as it is, and none of its keys is counted.
        """

    def check(
        self,
        keys: _Keys,
        grads: _Floats,
        *,
        step: int,
        lr: float,
        counts: npt.NDArray[np.uint32] | None = None,
        shows: _Floats | None = None,
        clicks: _Floats | None = None,
        scale: float = 1.0,
        skip_nonfinite: bool = False,
    ) -> None:
        """Raise what `push` would raise of the same arguments, and change nothing: one pass over the gradients.

        What is left to fail a push that was checked is memory.
        """

    def push_all(
        self,
        pushes: Sequence[_Push],
        *,
        step: int,
        lr: float,
        scale: float = 1.0,
        skip_nonfinite: bool = False,
        skip_shards: int = 0,
    ) -> dict[str, int]:
        """Push what several workers send in one step: (keys, grads, counts, shows, clicks) of each, in their order.

        The same as `push` of all of them joined, without joining them. Where some lack counts, each key counts once;
        where some lack shows, as often as it was counted; where some lack clicks, none.
        """

    def check_all(
        self, pushes: Sequence[_Push], *, step: int, lr: float, scale: float = 1.0, skip_nonfinite: bool = False
    ) -> None:
        """Raise what `push_all` would raise of the same arguments, and change nothing."""

    def find(self, keys: _Keys) -> npt.NDArray[np.uint8]:
        """Return 1 for each key that has a row, else 0."""

    def assign(self, keys: _Keys, values: _Floats, *, step: int = 0, skip_shards: int = 0) -> int:
        """Give keys rows of these values, [n, width], with a new state and new counters, last seen in `step`.

        No entry policy is asked; bounds and the largest norm hold. Returns how many rows were evicted. `skip_shards` is
        that of `push`.
        """

    @property
    def record_words(self) -> int:
        """The int32 words of a record: values and state as floats, then seen, step, and whether there is a row."""

    def read(self, keys: _Keys, records: _Int32s) -> None:
        """Write the record of each key, [n, record_words]; without a row it is what the row would begin with.

        ValueError unless rows are float32, in memory, and have no clicks.
        """

    def write(self, keys: _Keys, records: _Int32s) -> None:
        """Put records back that were read and changed; those that say there is no row are left out."""

    def shrink(
        self,
        *,
        now: int,
        unseen_steps: int = 0,
        score_below: float | None = None,
        decay: float = 0.0,
        skip_shards: int = 0,
    ) -> int:
        """Delete rows not pushed for more than `unseen_steps`, and rows whose score is too low; return how many.

        Bit s of `skip_shards`: shard s stays as it is.
        """

    def doomed(
        self, *, now: int, unseen_steps: int = 0, score_below: float | None = None, decay: float = 0.0
    ) -> npt.NDArray[np.int64]:
        """Return the keys of the rows that `shrink` would delete now, in no order."""

    def erase(self, keys: _Keys, *, skip_shards: int = 0) -> tuple[int, int]:
        """Delete the rows of some keys, with all older versions in files; how many rows, how many keys that waited.

        A watcher is told that all may have changed. OSError where files cannot be written anew.
        """

    def export(self, first_shard: int, last_shard: int) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of the rows of some shards: keys, values as stored, state, seen, step, waiting_keys, ..."""

    def export_keys(self, keys: _Keys) -> dict[str, npt.NDArray[Any]]:
        """Return what `export` returns, of some distinct keys; `gone` has those with neither a row nor counts.

        ValueError for a table with rows on a disk.
        """

    def values_of(self, keys: _Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return the keys that have a row, their values, and the keys without one, each in the order given."""

    def watch(self) -> int:
        """Begin to note which keys change or are deleted, for the watcher of this number."""

    def unwatch(self, watcher: int) -> None:
        """Note no more for a watcher, whose number may be given to another."""

    def touched(self, watcher: int, forget: bool) -> tuple[npt.NDArray[np.int64], bool]:
        """Return the keys noted for a watcher, each once, in no order; and whether any other may have changed, too.

        `forget`: from now on only what comes is noted.
        """

    def touch(self, watcher: int, keys: _Keys | None) -> None:
        """Note keys as if they had changed; None: as if all had."""

    def import_(self, rows: Mapping[str, npt.NDArray[Any]], server: int, num_servers: int) -> int:
        """Take those of exported rows that `server` holds; rows that exist are replaced. Return how many."""

    def seal(
        self, first_shard: int, last_shard: int, folder: str, prefix: str = ""
    ) -> tuple[list[tuple[int, int, list[str]]], dict[str, npt.NDArray[Any]]]:
        """Give the files of some shards names in `folder`, too, and return what they are, and what they lack.

        Of each shard: its number, how many keys its files have, their names, the newest first. What they lack is as
        `export` has it, with on_disk; `attach` and `import_` make a table of both.
        """

    def import_file(self, path: str, server: int, num_servers: int) -> int:
        """Take those rows of such a file that `server` holds; of several files the oldest comes first."""

    def refuse_if_full(self) -> None:
        """Raise OSError if rows that memory has no room for cannot be written: a push would."""

    def attach(self, shard: int, num_keys: int, names: Sequence[str], folder: str) -> None:
        """Take files of another table for those of a shard that is empty."""

    def clear(self) -> None:
        """Delete every row."""

class Located:
    """The copies of some keys, found once; of use until all copies are cleared, and then found again."""

class ServedBase:
    """All rows of a table in one file, mapped (csrc/serve/base.h); OSError where it is no whole base."""

    def __init__(self, path: str, in_memory: bool = False) -> None:
        """Map the file or, with `in_memory`, read it into large pages."""
    def __len__(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def format(self) -> int:
        """The number of the rows' format: 0 float32, 3 int8."""
    @property
    def file_bytes(self) -> int: ...

class ServedBaseWriter:
    """Writes the file of a `ServedBase`: count all keys; then, as long as `next_pass` says so, add all rows; finish."""

    def __init__(self, path: str, width: int, format: int, size: int, memory_bytes: int) -> None:
        """Begin a file of `size` rows, in passes that take `memory_bytes` each; OSError if it cannot be written."""
    def count(self, keys: _Keys) -> None: ...
    def next_pass(self) -> bool: ...
    def add(self, keys: _Keys, rows: _Floats) -> None: ...
    def finish(self) -> None: ...

class ServedTables:
    """Tables that are served: bases and the changes since (csrc/serve/tables.h). Used from any number of threads."""

    def __init__(self, bases: Sequence[ServedBase], numbers: _Keys) -> None:
        """Serve the bases, which have the batches up to these `numbers` of each shard."""
    def lookup(
        self, wanted: Sequence[tuple[int, _Keys]]
    ) -> tuple[list[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]], npt.NDArray[np.int64]]:
        """Return ([(rows, places of keys without a row, which are zeros)], numbers), all of one moment."""

    def apply(self, shard: int, number: int, changed: Sequence[tuple[int, _Keys, _Floats, _Keys]]) -> None:
        """Take a batch of a shard, (table, keys, rows, keys that are gone) each: no lookup sees half of it."""

    @property
    def numbers(self) -> npt.NDArray[np.int64]: ...
    def num_changed(self, table: int) -> int:
        """Return how many keys have changed since the base."""

    @property
    def changed_bytes(self) -> int: ...

class Copies:
    """A worker's copies of rows in geo mode, by int64 key (csrc/copies/copies.h). Used from one thread."""

    def __init__(
        self,
        name: str,
        width: int,
        rule: str,
        rule_args: Mapping[str, float],
        bounds: tuple[float, float] | None = None,
        max_norm: float | None = None,
        norm_type: float | None = 2.0,
        tolerance: float = 0.0,
    ) -> None:
        """Hold no copies yet; `tolerance` is by how much, relatively, servers may round what they store."""
    @property
    def memory_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def missing(
        self, keys: _Keys, offsets: _Keys
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], Located]:
        """Return (keys, positions, offsets) of those grouped keys that the servers are to be asked for, and all found.

        That is those without a copy, and those that the worker sent whole in the last window and has not used since.
        """

    def pull(
        self,
        keys: _Keys,
        out: _Floats,
        positions: _Keys | None = None,
        fetched: _Floats | None = None,
        located: Located | None = None,
    ) -> None:
        """Write the copies of the keys to out, [n, width]; zeros where there is none.

        First make copies of `fetched` rows of servers, for the keys at the ascending `positions`, but of those that
        `missing` would not name any more. `located` is what `missing` found for the very same keys.
        """

    def push(
        self,
        keys: _Keys,
        grads: _Floats,
        *,
        lr: float,
        skip_nonfinite: bool = False,
        located: Located | None = None,
    ) -> int:
        """Update the copies of distinct keys once; return how many were skipped for a NaN or an Inf."""

    def difference(
        self, num_workers: int, num_servers: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return (keys, what servers are to add, how often each was touched, offsets), and begin the next window.

        Keys are grouped by server and ascend within one.
        """

    def merge(
        self,
        keys: _Keys,
        sent: _Floats,
        touches: npt.NDArray[np.uint32],
        rows: _Floats,
        num_workers: int,
        awaited: float,
    ) -> None:
        """Go on from the rows that servers have since they added what was sent, with what was learned meanwhile.

        `awaited` is which part of the other workers has not been heard of in the window that was sent.
        """

    def age(self) -> None:
        """Note that the servers have what was sent: rows that were touched once are to be asked for again."""

    def clear(self) -> None:
        """Drop every copy, and what was not sent."""

class Clicks:
    """Click logs that are made up; sample i is a function of the settings and i (csrc/data/clicks.h).

    `vocabularies` are 26, `gaps` 39. Ranges are first to last, of at most 2**28 samples.
    """

    def __init__(
        self,
        seed: int,
        vocabularies: Sequence[int],
        gaps: Sequence[float],
        exponent: float,
        click_rate: float,
        signal: float,
    ) -> None: ...
    def batch(
        self, first: int, last: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return (label [n], dense [n, 13] with the logarithm taken, ids [n, 26])."""

    def probabilities(self, first: int, last: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
        """Return (the probability of a click, label)."""

    def text(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Return the samples as lines, tabs between columns, nothing for a gap."""

    def columns(
        self, first: int, last: int
    ) -> tuple[
        npt.NDArray[np.int32],
        list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]],
        list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.uint8]]],
    ]:
        """Return (label, 13 numbers as (valid, values), 26 categories as (valid, offsets, text)), as Arrow has them."""

class Dense:
    """The dense parameters of one server: a flat buffer and a rule for each group, all under one lock."""

    def __init__(self, groups: Sequence[tuple[str, Mapping[str, float], Sequence[int]]]) -> None:
        """Make groups of zeros, given as rule, its arguments and the sizes of its parts: the blocks of parameters."""

    def start(self, group: int, values: _Floats) -> None:
        """Give a group its first values; the state of its rule begins anew."""

    def restore(self, group: int, values: _Floats, state: _Floats) -> None:
        """Go back to saved values and state."""

    def read(self) -> list[npt.NDArray[np.float32]]:
        """Return the values of every group, of one moment: not a copy, and no later update changes them."""

    def snapshot(self) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """Return the same with the state of each rule: its arrays, then its scalars, for all parts or for each."""

    def apply(
        self,
        updates: Sequence[tuple[int, float, Sequence[_Floats], Sequence[int]]],
        num_pushes: int,
        skip_nonfinite: bool,
    ) -> int:
        """Apply the mean over `num_pushes` of each group's gradients, given as group, rate and gradients in order.

        Last come the parts of the group that sit this step out, ascending: values and state stay as they are.
        Return how many groups were skipped for a NaN or an Inf.
        """

class PlaneHoldings:
    """What a server holds, for requests that native code reads (csrc/plane/holdings.h)."""

    def __init__(self, tables: Sequence[Table], reader: PlaneReader, dense: Dense | None, skip_nonfinite: bool) -> None:
        """Without `dense`, dense groups are elsewhere: pushes of them are read, and not applied."""

    def is_safe(self, pushes: Sequence[PlanePush]) -> bool:
        """Whether the pushes of one step can be applied so far as numbers tell; False: look closer."""

    def apply(
        self, pushes: Sequence[PlanePush], time: int, num_pushes: int, factor: float, skip_shards: Sequence[int]
    ) -> int:
        """Apply the mean of the pushes of one step; return how many rows and groups were skipped.

        The mean is multiplied by `factor`, but that of groups that are exact. `skip_shards` has bits for each table,
        or is empty.
        """

    def means(
        self, pushes: Sequence[PlanePush], num_pushes: int, factor: float
    ) -> list[tuple[int, float, npt.NDArray[np.float32], list[int]]]:
        """Return what `apply` does to each dense group: its number, rate, mean, and the parts that sit it out."""

class PlaneReader:
    """How requests must look in a job, as one of its servers sees it (csrc/plane/reader.h)."""

    def __init__(
        self,
        tables: Sequence[tuple[int, bool]],
        groups: Sequence[tuple[Sequence[tuple[int, int]], bool]],
        num_parameters: int,
        takes_deltas: bool,
        takes_passes: bool,
    ) -> None:
        """Take, of each table, the width and whether a key without a row that is only read is zeros.

        Of each dense group: the parts, each a parameter and a size, and whether its values travel as float32, whatever
        is asked for. `takes_deltas`: instead of gradients.
        """

    def read_push(self, header: bytes, tensors: Sequence[Buffer | npt.NDArray[Any]]) -> PlanePush | PlaneRefusal:
        """Read a push where its bytes lie, which it keeps; what is not aligned is copied."""

    def read_pull(
        self, header: bytes, tensors: Sequence[Buffer | npt.NDArray[Any]]
    ) -> list[tuple[int, npt.NDArray[np.int64], bool, int]] | PlaneRefusal:
        """Return, of each table that is asked for, the keys, whether those without a row are zeros, the format."""

def read_message(data: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the header of a message, and where each tensor begins and ends; ValueError if the bytes are none."""

class PlaneRefusal:
    """The first thing about a request that does not fit, in numbers."""

    @property
    def what(self) -> str: ...
    @property
    def place(self) -> int:
        """The table or the dense group; -1: it is about none."""
    @property
    def given(self) -> int: ...
    @property
    def wanted(self) -> int: ...
    @property
    def width(self) -> int:
        """Of rows; 0: they have none."""
    @property
    def format(self) -> int: ...
    @property
    def rate(self) -> float: ...

class PlanePush:
    """A push that was read; arrays are views of its bytes, and keep them."""

    @property
    def num_rows(self) -> int:
        """How many rows it has gradients for."""
    @property
    def decoded_bytes(self) -> int:
        """What it takes to make floats of what is encoded still."""
    @property
    def groups(self) -> tuple[int, ...]:
        """The dense groups that are pushed."""
    @property
    def keys(self) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """The tables that it is about, each with its keys."""
    @property
    def tables(
        self,
    ) -> list[
        tuple[
            int,
            float,
            npt.NDArray[np.int64],
            npt.NDArray[np.float32],
            npt.NDArray[np.uint32] | None,
            npt.NDArray[np.float32] | None,
            npt.NDArray[np.float32] | None,
        ]
    ]:
        """Of each: its rate, keys, gradients, counts, shows, clicks."""
    @property
    def dense(self) -> list[tuple[int, float, npt.NDArray[np.float32]]]:
        """Of each dense group: its rate and gradients."""
    @property
    def pulls(self) -> list[tuple[int, npt.NDArray[np.int64], bool, int]]:
        """Rows that it also wants; see `PlaneReader.read_pull`."""

class PlaneCall:
    """A Pull, Push or Meet that a server was sent, until it is answered, once."""

    @property
    def method(self) -> str: ...
    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The message as it came."""
    @property
    def header(self) -> bytes: ...
    @property
    def tensors(self) -> list[npt.NDArray[np.uint8]]:
        """Views of the message, which they keep."""
    @property
    def push(self) -> PlanePush:
        """What it says, where it is a push that fits the job."""
    @property
    def awaited_version(self) -> int: ...
    @property
    def note(self) -> int:
        """What `PlaneServer.park` was told."""
    @property
    def is_gone(self) -> bool:
        """Whether its connection is over."""
    def keep(self) -> None:
        """Move the request into memory that nobody else can write to; RuntimeError if it was written to before."""
    def hand_room_over(self) -> int:
        """What it holds of the budget, which is the caller's to let go from now on."""
    def reply(self, header: bytes, tensors: Sequence[Buffer | npt.NDArray[Any]]) -> None: ...
    def fail(self, code: int, text: str) -> None:
        """Answer with an error; the code is that of gRPC's status."""

class Budget:
    """How many bytes of large messages a server has in memory (csrc/plane/memory.h). Safe to use from many threads."""

    def __init__(self, most: int) -> None: ...
    def hold(self, bytes: int, own: int = 0) -> bool:
        """Hold more for a call that holds `own` already; whether there is room, as there always is for one alone."""
    def let_go(self, bytes: int) -> None: ...
    @property
    def held(self) -> int: ...

class PlaneServer:
    """A server's side of the data plane (csrc/plane/server.h): sockets, and threads that answer."""

    def __init__(
        self,
        names: Sequence[str],
        address: str,
        token: bytes,
        max_connections: int,
        budget: Budget,
        max_wait_s: float,
        decide: Callable[[int, PlaneCall], None],
        refused: Callable[[str, str], None],
        hello_s: float = 10.0,
        silence_s: float = 60.0,
        tls: PlaneTls | None = None,
        num_kept_free: int = 0,
    ) -> None:
        """Listen on abstract Unix sockets and, unless the address is empty, on TCP; an OSError says why not.

        With `tls`, TCP speaks it, and nothing else. A pull waits for `max_wait_s` at most; a client says its token
        within `hello_s`, or is dropped, and one that stops in the middle of a message after `silence_s`. `refused` is
        told of who was refused, and what it has instead of what it should. `num_kept_free` threads decide nothing but
        calls of a copy.
        """

    @property
    def port(self) -> int:
        """The port of TCP; 0: none."""
    def run(self, thread: int) -> None:
        """What each of its threads does, until it is stopped."""

    def stop(self) -> None: ...
    def serve(self, holdings: PlaneHoldings | None, instance: int, incarnations: Sequence[int]) -> None: ...
    def set_incarnation(self, worker: int, incarnation: int) -> None: ...
    def set_term(self, term: int) -> None:
        """Pulls of another term are handed over, for Python to refuse."""

    def publish(self, version: int, is_open: bool, is_started: bool, step: bytes, look: int) -> None:
        """Say what calls wait for; those of worker `look` (-1: nobody, -2: everybody) are handed over again."""

    def answer(self, call: PlaneCall, header: bytes) -> None:
        """Answer with the rows and dense parameters that a call wants."""

    def park(
        self,
        call: PlaneCall,
        version: int,
        timeout_ms: int,
        prefix: bytes,
        note: int,
        record: int = 0,
        asks_for_all: bool = False,
    ) -> None:
        """Answer when the version is reached, and the copy has the record; the header is `prefix` and what `publish`
        said of the step. With `asks_for_all` as soon as all pushes of the step have come: with what `collected` said.
        """

    def collected(self, version: int, record: int, all: bytes) -> None:
        """Say that all pushes of the step that leads to a version are here, the last of them as this record."""

    def copied(self, record: int) -> None:
        """Say which records the copy of this server has."""

    def park_until_told(self, call: PlaneCall, timeout_ms: int, note: int) -> None:
        """Keep a call that somebody answers; it is handed over when its time is over, or it is to be looked at."""

    def park_again(self, call: PlaneCall) -> None: ...
    def counts(self) -> dict[str, int]: ...

class PlaneTls:
    """What a process shows to others, and by what it judges them (csrc/plane/tls.h)."""

    def __init__(self, libraries: Sequence[str], certificate: bytes, key: bytes, authority: bytes) -> None:
        """Use the first OpenSSL that can be had; certificates are PEM. A RuntimeError says what cannot be used."""

    @property
    def library(self) -> str:
        """What the library calls itself."""

class PlaneClient:
    """A worker's connection to a server's data plane. An OSError says why there is none, a RuntimeError who refused."""

    @staticmethod
    def unix(name: str, token: bytes, timeout_s: float, use_blocks: bool) -> PlaneClient: ...
    @staticmethod
    def tcp(address: str, port: int, token: bytes, timeout_s: float) -> PlaneClient: ...
    @staticmethod
    def tls(address: str, port: int, tls: PlaneTls, name: str, token: bytes, timeout_s: float) -> PlaneClient:
        """By TCP with TLS; the server's certificate must carry the name, or be for the address, that is given."""
    @property
    def is_open(self) -> bool: ...
    def call(
        self,
        method: int,
        header: bytes,
        tensors: Sequence[Buffer | npt.NDArray[Any] | tuple[Buffer, ...]],
        room: int,
        ahead: Sequence[tuple[int, int, int]] = ...,
    ) -> PlaneAnswer:
        """Begin a call: 1 is Pull, 2 Push, 3 Meet. A tensor may be in pieces; `room` is how large the answer may be.

        `ahead`: which tensor, from which byte on, was sent ahead under which number. What was sent and is not what the
        tensor holds now goes along with the call; every number is forgotten.
        """

    def send_ahead(self, pieces: Sequence[Buffer]) -> int:
        """Have some bytes of a call to come sent; returns their number, or 0 if they go along with the call."""

    def forget_ahead(self, number: int) -> None:
        """What has this number will not be needed."""

    def close(self) -> None: ...

class PlaneAnswer:
    """What became of a call: 0 it is waited for, 1 a reply, 2 an error, 3 the connection was lost."""

    def wait(self, timeout_s: float) -> bool: ...
    @property
    def state(self) -> int: ...
    @property
    def header(self) -> bytes: ...
    @property
    def tensors(self) -> list[npt.NDArray[np.float32]]:
        """Views of the message, which they keep."""
    @property
    def joined_bytes(self) -> int:
        """How much of the call had been sent ahead, and was not sent again."""
    @property
    def sent_ns(self) -> int:
        """While spans are recorded: when the call was made, on the clock of `time.monotonic_ns`; else 0."""
    @property
    def came_ns(self) -> int:
        """While spans are recorded: when it was answered, or lost; 0 until then."""
    @property
    def code(self) -> int: ...
    @property
    def text(self) -> str: ...

def run_keys(path: str) -> npt.NDArray[np.int64]:
    """Return the keys of a sealed file of rows. OSError if it is damaged."""

def rewrite_run(path: str, folder: str, keys: _Keys) -> str:
    """Write a sealed file of rows without some keys into a folder; return its name, which has its own id.

    ValueError if no record would stay.
    """

class RunCheck:
    """A sealed file of rows, read from end to end: whether it is what was written, and the file that its name says.

    OSError, of errno 0 for damage, from all of it.
    """

    def __init__(self, path: str) -> None: ...
    def next(self, num_bytes: int) -> bool:
        """Read about so many bytes more; whether any are left."""
    @property
    def file_bytes(self) -> int: ...
    @property
    def done_bytes(self) -> int: ...
    @property
    def checksum(self) -> int:
        """The CRC-32C of the bytes that were read."""

class RecordScan:
    """Records of a journal or a snapshot, compared with their checksums as the bytes come (csrc/disk/record_scan.h)."""

    def __init__(self) -> None: ...
    def take(self, data: Buffer) -> bool:
        """The next bytes of the file; False if they are not what was written. Then no more may come."""
    @property
    def num_records(self) -> int: ...
    @property
    def first(self) -> int:
        """The number of the first record; 0: there is none."""
    @property
    def last(self) -> int:
        """That of the last one that is complete."""
    @property
    def most(self) -> int:
        """The largest number of a complete one."""
    @property
    def is_in_order(self) -> bool:
        """Whether the numbers go up by one each."""
    @property
    def last_begin(self) -> int:
        """Where the last complete record begins."""
    @property
    def end(self) -> int:
        """Where it ends."""
    @property
    def is_between(self) -> bool:
        """Whether nothing follows it."""
    @property
    def chain(self) -> int:
        """One checksum of the heads of all records but the last complete one."""

def record_spans(on: bool) -> None:
    """Whether requests that are traced leave spans; until it is called they leave none."""

def take_spans() -> list[tuple[str, int, int, int, list[int]]]:
    """The spans since the last call: what, thread, begin and end in ns of `time.monotonic_ns`, and six numbers.

    Of a request these are method, worker, incarnation, sequence, begin and end of its wait; of `table pull` and
    `table push` table and rows; of `dense` the number of groups. One thread at a time.
    """

def lost_spans() -> int:
    """How many spans found no room so far."""
