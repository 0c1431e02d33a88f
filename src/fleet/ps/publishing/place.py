"""Whether a server can publish to a place: looked at before any server of the job begins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.errors import StreamError, UsageError
from fleet.ps.publishing.bases import BaseKeeper
from fleet.stream import StreamHead
from fleet.stream.sinks import Sink, open_sink

if TYPE_CHECKING:
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.steps.state import PublishTo


def checked_sink(asked: PublishTo) -> Sink:
    """The sink that a request means; UsageError, before anything is looked at, if it means none."""
    if not 0.01 <= asked.every_s <= 3600:
        raise UsageError(f"fleet.publish: every_s must be from 0.01 to 3600 seconds, got {asked.every_s!r}")
    if "://" not in asked.url and not os.path.isabs(asked.url):
        raise UsageError(f"fleet.publish: {asked.url!r:.200} is no whole path, which servers need; begin it with /")
    return open_sink(asked.url)


def check_place(asked: PublishTo, holdings: Holdings) -> None:
    """UsageError or StreamError, in one line, if this server cannot publish there now."""
    sink = open_sink(asked.url)
    try:
        text = sink.head()
        sink.bases.mkdir(parents=True, exist_ok=True)
        probe = sink.bases / f".probe-{holdings.server}"
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            f"server {holdings.server} cannot publish to {sink.url!r}: {why}; mend that, or publish elsewhere"
        ) from None
    finally:
        sink.close()
    if text is None:
        return
    try:
        there = StreamHead.from_text(text, f"{sink.url}/stream.json")
    except StreamError as error:
        raise UsageError(f"cannot publish to {sink.url!r}: {error}; publish elsewhere, or remove that") from None
    own = BaseKeeper(holdings, sink, "", asked.every_s).head(there.base)
    if there.fingerprint != own.fingerprint:
        raise UsageError(
            f"cannot publish to {sink.url!r}: {_difference(there, own)}; publish elsewhere, or remove its stream.json"
        )


def _difference(there: StreamHead, own: StreamHead) -> str:
    for name in sorted({*there.tables, *own.tables}):
        if (was := there.tables.get(name)) != (now := own.tables.get(name)):
            what = [f"width {one.width}" if one else "none" for one in (was, now)]
            if was and now and was.width == now.width:
                what = [f"other first values ({one.unseen})" for one in (was, now)]
            return f"it has the stream of another model: table {name!r} has {what[0]} there, and {what[1]} here"
    for name in sorted({*there.dense, *own.dense}):
        if (old := there.dense.get(name)) != (new := own.dense.get(name)):
            shapes = [list(one.shape) if one else "none" for one in (old, new)]
            return f"it has the stream of another model: parameter {name!r} is {shapes[0]} there, and {shapes[1]} here"
    return "it has the stream of another model"
