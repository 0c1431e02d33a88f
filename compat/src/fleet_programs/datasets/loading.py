"""All records of some files in memory, now or in the background."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial

from fleet import env
from fleet.data.columns.records import Records, join
from fleet.observe import progress
from fleet_programs.datasets.multislot import Format, none_of
from fleet_programs.datasets.piped import Stop
from fleet_programs.datasets.readers import Files, Readers

_Item = tuple[int, Records | None]
"""A piece of a file, by the file's place; None when the file has been read."""


def load(paths: list[str], format: Format, num_threads: int, show: bool) -> Records:
    """The records of all files, in the order of the files, whichever thread has read them.

    With `show`, a bar counts the files where somebody looks at a terminal.
    """
    with _readers(paths, format, num_threads) as readers:
        return _collect(readers, len(paths), format, show)


def _readers(paths: list[str], format: Format, num_threads: int) -> Readers[_Item]:
    return Readers(paths, partial(_work, format), min(num_threads, len(paths)))


def _collect(readers: Readers[_Item], num_files: int, format: Format, show: bool) -> Records:
    pieces: list[list[Records]] = [[] for _ in range(num_files)]
    watched = show and num_files > 0 and (env.FLEET_TERMINAL_WIDTH.get() is not None or sys.stdout.isatty())
    bar = progress(_finished(readers, pieces), "load", total=num_files, enabled=watched, unit="file")
    for num_records in bar:
        bar.show(records=num_records)
    flat = [piece for of_file in pieces for piece in of_file]
    return join(flat) if flat else none_of(format.slots, format.has_id)


def _work(format: Format, files: Files, stop: Stop) -> Generator[_Item, None, None]:
    for place, path in files:
        for piece in format.read(path, stop):
            yield place, piece
        yield place, None


def _finished(readers: Readers[_Item], pieces: list[list[Records]]) -> Iterator[int]:
    """Puts the pieces where they belong; with each file that has been read, how many records there are."""
    num_records = 0
    for place, piece in readers:
        if piece is None:
            yield num_records
        else:
            pieces[place].append(piece)
            num_records += piece.num


class Preload:
    """A load in the background; the end of the interpreter ends it."""

    def __init__(self, paths: list[str], format: Format, num_threads: int) -> None:
        self._result: Records | None = None
        self._error: BaseException | None = None
        readers = _readers(paths, format, num_threads)
        collect = partial(_collect, readers, len(paths), format, False)
        self._thread = threading.Thread(target=self._run, args=(readers, collect), name="fleet-preload", daemon=True)
        # The last to be registered is called first: the readers stop, then the thread that listens to them ends.
        atexit.register(self._thread.join)
        readers.__enter__()
        self._thread.start()

    def _run(self, readers: Readers[_Item], collect: Callable[[], Records]) -> None:
        try:
            self._result = collect()
        except BaseException as error:
            self._error = error
        finally:
            readers.close()

    def wait(self) -> Records:
        """The records, once they are there; what the load raised is raised here."""
        self._thread.join()  # the load has its own deadlines
        atexit.unregister(self._thread.join)
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result
