"""A stream of changes from the servers of a training job to whoever serves: its format, where it lies, who reads it.

Ask for `batches` (one batch of changes as bytes), `head` (what a stream is of, and its newest base) and `sinks` (where
batches lie). Servers write them (`fleet.ps.publishing`), and `fleet_serve` follows them.
"""

from fleet.stream.batches import ChangeBatch as ChangeBatch
from fleet.stream.batches import DamagedBatchError as DamagedBatchError
from fleet.stream.batches import MissingBatchError as MissingBatchError
from fleet.stream.batches import RepeatedBatchError as RepeatedBatchError
from fleet.stream.batches import StartOverError as StartOverError
from fleet.stream.batches import TableChanges as TableChanges
from fleet.stream.head import StreamBase as StreamBase
from fleet.stream.head import StreamHead as StreamHead
from fleet.stream.head import TableHead as TableHead
