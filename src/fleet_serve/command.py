"""`fleet-serve`: what was typed, the doors that are opened, and the model behind them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from fleet._version import __version__
from fleet.errors import FleetError, UsageError
from fleet.net import Endpoint, own_address
from fleet.observe.logs import show_logs
from fleet.ps.wire.trust.own_token import token_for
from fleet.ps.wire.trust.tls import Tls
from fleet.stream.sinks import open_sink
from fleet_serve.doors.answers import Answers, FollowState
from fleet_serve.doors.grpc_door import GrpcDoor
from fleet_serve.doors.http_door import HttpDoor
from fleet_serve.following.follower import Follower
from fleet_serve.rows.bases import FORMATS
from fleet_serve.rows.model import ServedModel, default_cache, load_model, local_cache

LOOK_S = 0.1
GRACE_S = 5.0
LEAST_LAG_S = 10.0
"""The least of --max_lag: twice the time from one empty batch to the next."""

EPILOG = """
\b
Examples:
  fleet-serve model                                    what fleet.save_inference_model("model") has written
  fleet-serve --follow /data/clicks                    the model that a job with fleet.publish("/data/clicks") trains
  fleet-serve model --follow /data/clicks              the same; the folder answers until that job's first base is there
  fleet-serve model --predict clicks.pt2               whole predictions, too
  fleet-serve model --rows int8                        a quarter of the memory, values rounded to 255 steps of each row
  FLEET_JOB_TOKEN=secret fleet-serve model --listen 10.0.0.1:8500 --http 10.0.0.1:8501       for other machines

\b
Ask it:
  curl -H "Authorization: Bearer $FLEET_JOB_TOKEN" 127.0.0.1:8501/v1/lookup -d '{"tables": {"user": [1, 2, 3]}}'
  python: fleet_serve.client.ServingClient("127.0.0.1:8500").lookup({"user": ids})
  any language: proto/serve.proto, with the token in the metadata `fleet-token`

\b
It says `fleet-serve listening on ...` when its ports are open. /readyz says when requests may come: once a model is
loaded and, with --max_lag, while it is no further behind its job. Without FLEET_JOB_TOKEN, on a loopback address, the
token is that of the user, in ~/.cache/fleet/loopback-token. For TLS set FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA.
For more replicas start more processes: those of one machine share the mapped files. It ends by SIGTERM or Ctrl-C.
"""

_log = logging.getLogger("fleet.serve")


@dataclass(frozen=True)
class ServeOptions:
    """What was typed."""

    model: Path | None
    follow: str | None
    listen: Endpoint
    http: Endpoint | None
    predict: Path | None
    cache: Path | None
    rows: str
    in_memory: bool
    max_lag: float | None
    max_bytes: int
    threads: int
    allow_anonymous: bool

    def cache_of(self, folder: Path) -> Path:
        """Where the mapped files of a model lie."""
        return self.cache or (default_cache(folder) if self.follow is None else local_cache(self.follow))


@click.command(epilog=EPILOG, context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]})
@click.argument("model", required=False, type=click.Path(path_type=Path))
@click.option("--follow", metavar="URL", help="Follow the job that publishes its changes there.")
@click.option("--listen", default="127.0.0.1:8500", show_default=True, metavar="HOST:PORT", help="gRPC; port 0: any.")
@click.option("--http", default="127.0.0.1:8501", show_default=True, metavar="HOST:PORT", help="HTTP; none: no HTTP.")
@click.option(
    "--predict",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Answer whole predictions: a program of fleet_serve.predict.exporting.export_for_serving().",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the mapped files of tables are made and kept.  [default: .fleet-serve beside the model; with --follow "
    "a folder of this machine, below ~/.cache/fleet/serve]",
)
@click.option(
    "--rows", type=click.Choice(sorted(FORMATS)), default="float32", show_default=True, help="How rows are kept."
)
@click.option("--in_memory", is_flag=True, help="Read the tables into memory instead of mapping them.")
@click.option(
    "--max_lag",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Ready only within S seconds, 10 or more.",
)
@click.option(
    "--max_bytes",
    type=click.IntRange(1 << 10, 1 << 30),
    default=64 << 20,
    show_default=True,
    metavar="N",
    help="What one request, and its answer, may have.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=max(4, os.cpu_count() or 1),
    show_default="one for each core",
    help="gRPC requests that are answered at the same time.",
)
@click.option("--allow_anonymous", is_flag=True, help="Serve whoever comes, without a token, on any address.")
@click.version_option(__version__)
def serve(**typed: object) -> None:
    """Answer lookups of a trained model, and follow the job that trains it.

    MODEL is a folder of fleet.save_inference_model() or fleet.save_persistables().
    """
    try:
        run(_options(typed))
    except FleetError as error:
        print(f"fleet-serve: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)


def _options(typed: dict[str, object]) -> ServeOptions:
    http = str(typed.pop("http"))
    listen = Endpoint.parse(str(typed.pop("listen")), "--listen", any_port=True)
    options = ServeOptions(
        listen=listen,
        http=None if http == "none" else Endpoint.parse(http, "--http", any_port=True),
        **typed,  # type: ignore[arg-type]
    )
    if options.model is None and options.follow is None:
        raise UsageError("nothing to serve: name the folder of a model, or what to --follow; see fleet-serve --help")
    if options.follow is not None:
        open_sink(options.follow).close()  # refuses what can never be followed
    if options.max_lag is not None and options.follow is None:
        raise UsageError("--max_lag is for a model that follows a job; add --follow URL, or leave it out")
    if options.max_lag is not None and options.max_lag < LEAST_LAG_S:
        raise UsageError(
            f"--max_lag {options.max_lag:g} is below {LEAST_LAG_S:g}, and a job without changes says each 5 s that "
            f"there are none; give {LEAST_LAG_S:g} or more"
        )
    return options


class ServingProcess:
    """The doors of one process, and what is behind them."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._follower: Follower | None = None
        tls, anonymous = Tls.from_environment(), options.allow_anonymous
        self._predictor = None
        if options.predict is not None:
            from fleet_serve.predict.predictor import Predictor  # and torch, which nothing else here needs

            self._predictor = Predictor(options.predict)
        self.answers = Answers(
            options.max_bytes, state=self._state, max_lag_s=options.max_lag, predictor=self._predictor
        )
        if options.follow is not None:
            self._follower = Follower(options.follow, self._load, self.answers)
        token = None if anonymous else token_for(options.listen)
        self.grpc = GrpcDoor(
            self.answers, options.listen, token, threads=options.threads, allow_anonymous=anonymous, tls=tls
        )
        self.http: HttpDoor | None = None
        if options.http is not None:
            token = None if anonymous else token_for(options.http)
            self.http = HttpDoor(self.answers, options.http, token, allow_anonymous=anonymous, tls=tls)

    def _state(self) -> FollowState:
        return FollowState() if self._follower is None else self._follower.state

    def _load(self, folder: Path, numbers: Iterable[int] = ()) -> ServedModel:
        options = self._options
        cache = options.cache_of(folder)
        has_layers = self._predictor is not None
        model = load_model(
            folder, cache, form=options.rows, in_memory=options.in_memory, numbers=numbers, has_layers=has_layers
        )
        if self._predictor is not None:
            self._predictor.check(model)
        return model

    def start(self) -> None:
        """Open the doors, then load what is behind them."""
        try:
            self.grpc.start()
        except BaseException:
            self.stop()
            raise
        where = f"{own_address(self.grpc.endpoint.host)}:{self.grpc.endpoint.port} (gRPC)"
        if self.http is not None:
            self.http.start()
            where += f" and {own_address(self.http.endpoint.host)}:{self.http.endpoint.port} (HTTP)"
        print(f"fleet-serve listening on {where}", flush=True)
        if self._follower is not None:
            self._follower.start()
        if self._options.model is not None:
            self.answers.serve_first(self._load(self._options.model))

    def look(self) -> None:
        """Tell probes how it is."""
        self.grpc.tell_health()

    def stop(self) -> None:
        """Answer what was asked, and end."""
        self.grpc.stop(GRACE_S)
        if self.http is not None:
            self.http.stop()
        if self._follower is not None:
            self._follower.stop()


def run(options: ServeOptions) -> None:
    """Serve until a signal comes."""
    show_logs(logging.INFO)
    over = threading.Event()
    process = ServingProcess(options)
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        process.start()
        while not over.wait(LOOK_S):
            process.look()
    finally:
        process.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


main = partial(serve, prog_name="fleet-serve")
