"""Which stream a URL means: `nats://[user:password@]host:port/STREAM` or `kafka://host:port[,host:port]/TOPIC`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from fleet.data.reading.growing import Follow
from fleet.data.streams.contract import Stream, StreamUrl
from fleet.errors import UsageError

_HOMES = {
    "nats": ("nats", "nats-py", "fleet_tools.streams.nats_stream", "NatsStream"),
    "kafka": ("confluent_kafka", "confluent-kafka", "fleet_tools.streams.kafka_stream", "KafkaStream"),
}
"""Beginning of a URL -> the module that is needed, its package, and our class: see `contract`."""


def streams_of(given: Sequence[str]) -> list[StreamUrl]:
    """The streams that are given; none if they are files."""
    found = [one for one in given if one.partition("://")[0] in _HOMES]
    if found and len(found) < len(given):
        raise UsageError(f"{_told(found[0])} is a stream, and beside it there are files; read them with another reader")
    streams = [parsed(one) for one in found]
    if len({str(one) for one in streams}) < len(streams):
        raise UsageError(f"{streams[0]} stands twice among the streams; name each once")
    return streams


def open_stream(url: StreamUrl) -> Stream:
    """Connect; ConnectionError if the broker does not answer, UsageError if it has no such stream."""
    module, package, home, name = _HOMES[url.kind]
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{url} needs the package {package}: pip install 'torch-fleet[{url.kind}]'") from error
    made: Stream = getattr(importlib.import_module(home), name)(url)
    return made


def parsed(text: str) -> StreamUrl:
    """The parts of a URL; UsageError if it lacks some."""
    parts = urlsplit(text)
    login, _, hosts = parts.netloc.rpartition("@")
    name = parts.path.strip("/")
    if not hosts or not name or "/" in name:
        kind = {"nats": "STREAM", "kafka": "TOPIC"}.get(parts.scheme, "NAME")
        raise UsageError(f"a URL of a stream is {parts.scheme}://HOST:PORT/{kind}, got {_told(text)}")
    return StreamUrl(parts.scheme, login, hosts, name, tuple(parse_qsl(parts.query)))


def _told(text: str) -> str:
    """A URL without what may be secret."""
    kind, _, rest = text.partition("://")
    return f"{kind}://{rest.partition('?')[0].rpartition('@')[2]}"


def options_of(url: StreamUrl, known: Sequence[str]) -> dict[str, str]:
    """The options of a URL; UsageError for one that is not known."""
    options = dict(url.options)
    if wrong := sorted(options.keys() - set(known)):
        raise UsageError(f"{url} has the option {wrong[0]!r}; there is {', '.join(known)}")
    return options


def lost(path: str, position: int, first: int) -> UsageError:
    """Records that were not read have gone."""
    return UsageError(
        f"{path} has its records from {first:,} on, and those from {position:,} on were not read yet: the broker has "
        "deleted them; have it keep records longer (retention), and to go on without them begin without this position"
    )


def made_anew(name: str) -> UsageError:
    """A stream is not the one that positions are of."""
    return UsageError(
        f"{name} was made anew since, so positions in it are of other records; begin without the position, in a new job"
    )


def refuse_with(url: StreamUrl, follow: object, threads: int | None, format: object) -> None:
    """UsageError for arguments that are for files."""
    if isinstance(follow, Follow):
        raise UsageError(f"{url} is no folder: give it follow=fleet.data.Feed(idle_s=...), not Follow")
    if threads not in (None, 1) or format not in (None, "text"):
        raise UsageError(f"{url} is read by one thread, as lines of text; leave threads= and format= out")
