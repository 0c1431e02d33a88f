"""Command lines of older launchers, in the words of fleetrun.

`launch` started collective jobs, `launch_ps` jobs with servers; both have options that fleetrun spells otherwise, and
defaults of their own. What neither knows is passed on, so every option of fleetrun works as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from fleet import env
from fleet.errors import UsageError
from fleet.launch import cli
from fleet.launch.cli import Dialect
from fleet.launch.run.output import say

FLAGS = frozenset(
    {
        "-h",
        "--help",
        "-m",
        "--module",
        "--dry-run",
        "--dry_run",
        "-q",
        "--quiet",
        "--banner",
        "--selfcheck",
        "--version",
    }
)
"""Options without a value."""
SHORT = frozenset({"-h", "--help", "--selfcheck", "--version"})
"""Those that need no script."""

RENAMED = {"--cluster_node_ips": "--ips", "--started_port": "--start_port", "--endpoints": "--servers"}
LOOPBACK = "127.0.0.1"
FIRST_SERVER_PORT = 6170

LAUNCH = Dialect(
    "python -m paddle.distributed.launch",
    """Start SCRIPT on several workers that train collectively. This is fleetrun with LOG_DIR mylog, and beside its
    options, which are listed below, it takes these:

    \b
    --cluster_node_ips HOST,..   addresses of all machines: --ips
    --node_ip HOST               which of them this machine is: --rank
    --started_port N             first port: --start_port
    --print_config True|False    False: --no-banner instead of --banner, which this command adds
    """,
    """
\b
Examples:
  python -m paddle.distributed.launch --selected_gpus 0,1 train.py                 two GPUs of this machine
  python -m paddle.distributed.launch --nproc_per_node 2 --device cpu train.py     two CPU workers
  python -m paddle.distributed.launch --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip 10.0.0.1 train.py    machine 1
""",
)
LAUNCH_PS = Dialect(
    "python -m paddle.distributed.launch_ps",
    """Start SCRIPT on parameter servers and workers. This is fleetrun with LOG_DIR logs and, unless told otherwise, 2
    servers and 2 workers on each machine. Beside fleetrun's options, which are listed below, it takes these:

    \b
    --cluster_node_ips HOST,..   addresses of all machines, each of which starts servers and workers
    --node_ip HOST               this machine, which must be one of them
    --endpoints HOST:PORT,..     every server: --servers
    --started_port N             first port: --start_port; 6170 with --cluster_node_ips unless given
    --print_config True|False    False: --no-banner instead of --banner, which this command adds
    """,
    """
\b
Examples:
  python -m paddle.distributed.launch_ps --worker_num 2 --server_num 2 train.py    all on this machine
  python -m paddle.distributed.launch_ps --endpoints 127.0.0.1:6170 --worker_num 2 train.py    one server, at this port
""",
)

Given = dict[str, str | None]
"""Options in the order they were given; None for one without a value."""


def launch(arguments: Sequence[str] | None = None) -> None:
    """Entry point of a collective job: `--selected_gpus 0,1 train.py`."""
    _main(collective, arguments, LAUNCH)


def launch_ps(arguments: Sequence[str] | None = None) -> None:
    """Entry point of a job with servers: `--worker_num 2 --server_num 2 train.py`."""
    _main(with_servers, arguments, LAUNCH_PS)


def _main(translate: Callable[[Sequence[str]], list[str]], arguments: Sequence[str] | None, dialect: Dialect) -> None:
    try:
        words = translate(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        say(f"fleetrun: {error}")
        sys.exit(2)
    cli.main(words, dialect)


def collective(arguments: Sequence[str]) -> list[str]:
    """The arguments of fleetrun for those of `launch`.

    >>> collective(["--selected_gpus", "0,1", "train.py", "--lr", "0.1"])
    ['--selected_gpus=0,1', '--banner', '--log_dir=mylog', '--', 'train.py', '--lr', '0.1']
    """
    given, script = _split(arguments)
    hosts, own = _machines(given)
    if hosts:
        given["--ips"] = ",".join(hosts)
        if own is not None:
            given.setdefault("--rank", str(hosts.index(own)))
    num_machines = env.PADDLE_NUM_TRAINERS.get()
    if num_machines is not None and num_machines > 1 and not {"--ips", "--master", "--nnodes"} & given.keys():
        given["--nnodes"] = str(num_machines)  # fleetrun asks where they meet
    _require_script(given, script, f"{LAUNCH.name} --selected_gpus 0,1 train.py")
    given.setdefault("--log_dir", "mylog")
    return _joined(given, script)


def with_servers(arguments: Sequence[str]) -> list[str]:
    """The arguments of fleetrun for those of `launch_ps`: 2 servers and 2 workers on each machine unless told.

    >>> with_servers(["--worker_num=3", "train.py"])
    ['--worker_num=3', '--banner', '--log_dir=logs', '--server_num=2', '--', 'train.py']
    """
    given, script = _split(arguments)
    hosts, _ = _machines(given)
    _require_script(given, script, f"{LAUNCH_PS.name} --worker_num 2 --server_num 2 train.py")
    given.setdefault("--log_dir", "logs")
    if "--workers" not in given and (hosts or "--servers" in given):
        _list_all(given, hosts or [LOOPBACK])
    elif not {"--servers", "--workers"} & given.keys():
        given.setdefault("--server_num", "2")
        given.setdefault("--worker_num", "2")
    return _joined(given, script)


def _list_all(given: Given, hosts: Sequence[str]) -> None:
    """Name every process: so many servers and workers on each machine, servers at consecutive ports."""
    num_servers, num_workers, first = (
        _whole(given, name, default)
        for name, default in (("--server_num", 2), ("--worker_num", 2), ("--start_port", FIRST_SERVER_PORT))
    )
    given.setdefault("--servers", ",".join(f"{host}:{first + i}" for host in hosts for i in range(num_servers)))
    given["--workers"] = ",".join(host for host in hosts for _ in range(num_workers))


def _whole(given: Given, name: str, default: int) -> int:
    text = given.pop(name, None) or str(default)
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{name} must be a whole number >= 1, got {text}")
    return int(text)


def _split(arguments: Sequence[str]) -> tuple[Given, list[str]]:
    """The options before the script, under fleetrun's names, and the script with what follows it."""
    given: Given = {}
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "--":
        name, equals, value = words.pop(0).partition("=")
        name = RENAMED.get(name, name)
        if name in FLAGS:
            given[name] = None
        elif equals or words:
            given[name] = value if equals else words.pop(0)
        else:
            raise UsageError(f"{name} needs a value")
    is_shown = (given.pop("--print_config", None) or "True").lower() != "false"
    if not is_shown:
        given["--no-banner"] = None
    elif not {"-q", "--quiet"} & given.keys():
        given["--banner"] = None
    if (given.pop("--use_paddlecloud", None) or "False").lower() == "true":
        raise UsageError("--use_paddlecloud: name the machines with --cluster_node_ips, or use --master and --nnodes")
    return given, words


def _require_script(given: Given, script: Sequence[str], example: str) -> None:
    if not script and not SHORT & given.keys():
        raise UsageError(f"no training script; write it after the options, for example: {example}")


def _machines(given: Given) -> tuple[list[str], str | None]:
    """Take the machines and this one's address out of the options; none if it is this machine alone."""
    hosts = [host.strip() for host in (given.pop("--ips", None) or "").split(",") if host.strip()]
    own = given.pop("--node_ip", None)
    if own is not None and own not in (hosts or [LOOPBACK]):
        raise UsageError(f"--node_ip {own} is not one of --cluster_node_ips {','.join(hosts) or LOOPBACK}")
    return ([], None) if hosts in ([LOOPBACK], ["localhost"]) else (hosts, own)


def _joined(given: Given, script: Sequence[str]) -> list[str]:
    """The words of fleetrun; what follows the script is always the script's."""
    words = [name if value is None else f"{name}={value}" for name, value in given.items()]
    return [*words, "--", *script] if script else words
