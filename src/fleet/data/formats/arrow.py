"""Arrow IPC as a format of files: those with random access (.arrow, .feather) in record batches, streams as a whole."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Records
from fleet.data.columns.schema import Schema
from fleet.data.formats.arrow_types import check_columns
from fleet.data.formats.from_arrow import records_of
from fleet.data.places.opening import open, open_as_it_is, packing_of, size_of
from fleet.data.places.urls import is_url, local_path, needed
from fleet.errors import UsageError

WITH_RANDOM_ACCESS = b"ARROW1"
FEATHER_1 = b"FEA1"


def source_of(path: str) -> AbstractContextManager[Any]:
    """What pyarrow can read at any place: a local file by itself, a URL through fsspec, a packed file whole."""
    pa = needed("pyarrow", f"files like {path}")
    if packing_of(path) is not None:
        with open(path) as packed:
            return cast(AbstractContextManager[Any], pa.BufferReader(packed.read()))
    source = open_as_it_is(path)
    if is_url(local_path(path)):
        return source
    source.close()
    return cast(AbstractContextManager[Any], pa.OSFile(local_path(path)))


@contextmanager
def damaged(path: str, kind: str) -> Iterator[None]:
    """What pyarrow cannot read, as an error that names the file."""
    pa = needed("pyarrow", f"files like {path}")
    try:
        yield
    except UsageError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{path} is no {kind} file, or damaged: {text[:200]}") from error


def changed(path: str) -> UsageError:
    """For a file that is not any more what it was when it was cut."""
    return UsageError(f"{path} has changed since the job began; leave the files alone until it has ended")


class ArrowFormat:
    """A `FileFormat`. What a file is, its first bytes tell."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        """Record batches, as many as make up `most_bytes`; a file does not tell the size of each: all count the same.

        A stream, and a file that is packed as a whole, is one block.
        """
        size = size_of(path)
        if size == 0:
            return []
        with source_of(path) as source, damaged(path, "Arrow"):
            found = self._opened(path, source)
            check_columns(found.schema, self.schema, path)
            num = getattr(found, "num_record_batches", None)
        if num is None or packing_of(path) is not None:
            return [Block(path, 0, 1 if num is None else num, size)] if num != 0 else []
        each = max(1, num * most_bytes // size)
        return [
            Block(path, first, min(first + each, num), size * (min(first + each, num) - first) // num)
            for first in range(0, num, each)
        ]

    def read(self, block: Block, problems: Problems) -> Records:
        """The rows of a block; those with a label that is no number, or an id that is no int64, are left out."""
        pa = needed("pyarrow", "Arrow files")
        path, first = block.path, block.first
        with source_of(path) as source, damaged(path, "Arrow"):
            found = self._opened(path, source)
            check_columns(found.schema, self.schema, path)
            if hasattr(found, "num_record_batches"):
                if block.last > found.num_record_batches:
                    raise changed(path)
                batches = [found.get_batch(place) for place in range(first, block.last)]
            else:
                batches = list(found)
            table = pa.Table.from_batches(batches, found.schema)
            table.validate(full=True)  # pyarrow believes what a file says about itself

            def first_row() -> int:
                return sum(found.get_batch(place).num_rows for place in range(first)) if first else 0

            return records_of(table, self.schema, path, first_row, problems)

    def _opened(self, path: str, source: Any) -> Any:
        """A reader that looks at the columns of the schema only."""
        ipc = needed("pyarrow.ipc", "Arrow files")
        begin = source.read(len(WITH_RANDOM_ACCESS))
        source.seek(0)
        if begin.startswith(FEATHER_1):
            raise UsageError(f"{path} is Feather of version 1; write it again with version 2, which is Arrow IPC")
        opened = ipc.open_file if begin == WITH_RANDOM_ACCESS else ipc.open_stream
        names = opened(source).schema.names
        source.seek(0)
        wanted = [place for place, name in enumerate(names) if name in self.schema.names]
        options = ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        return opened(source, options=options)
