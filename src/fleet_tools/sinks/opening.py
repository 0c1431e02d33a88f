"""Which broker a URL means: `nats://[USER:PASSWORD@]HOST:PORT/NAME?bases=/FOLDER`, or the same with redis:// or rediss://.

NAME is one of your choice for each job's stream. Nothing is connected before it is needed.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from fleet.data.streams.contract import StreamUrl
from fleet.errors import UsageError
from fleet_tools.sinks.broker import BrokerSink
from fleet_tools.sinks.contract import Store
from fleet_tools.streams.opening import options_of, parsed

_HOMES = {
    "nats": ("nats", "nats-py", "nats", "fleet_tools.sinks.nats_store", "NatsStore"),
    "redis": ("redis", "redis", "redis", "fleet_tools.sinks.redis_store", "RedisStore"),
    "rediss": ("redis", "redis", "redis", "fleet_tools.sinks.redis_store", "RedisStore"),
}
"""Beginning of a URL -> the module that is needed, its package, our extra, and our class."""
_OPTIONS = {"nats": ["bases"], "redis": ["bases", "db"], "rediss": ["bases", "db"]}


def open_sink(text: str) -> BrokerSink:
    """The sink of a URL; UsageError if it lacks something, or a package is missing."""
    url = parsed(text)
    bases = options_of(url, _OPTIONS[url.kind]).get("bases", "")
    if not os.path.isabs(bases):
        raise UsageError(
            f"{url} says no folder for bases, which servers and followers share; add ?bases=/folder to the URL"
        )
    if not url.name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"{url}: {url.name!r} is no name for a stream; take letters, digits, - and _")
    return BrokerSink(str(url), Path(bases), _store(url))


def _store(url: StreamUrl) -> Store:
    module, package, extra, home, name = _HOMES[url.kind]
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{url} needs the package {package}: pip install 'torch-fleet[{extra}]'") from error
    made: Store = getattr(importlib.import_module(home), name)(url)
    return made
