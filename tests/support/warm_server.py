"""Forks processes that need not import torch: `warm_server.py DESCRIPTOR`, which `support.warm` starts and talks to.

`warm_server.py --at PLACE` forks such servers, one for every session that asks at this abstract socket, until the
process that started it ends.

To import torch and its compiler costs a process more than most tests do in it. Here they are imported once, before any
thread and any tensor, and every process that is asked for is a fork: real, with an id, a session and an end of its own,
but with its imports behind it. What it forks may be fleetrun, which then forks its workers and servers instead of
starting interpreters.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNET = 0x40000000
_ON_A_HOST = ["ip", "netns", "exec"]
# Besides Fleet itself: torch's compiler comes with the first step of an optimizer.
_PRELOADED = ("torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.optim", "torch.utils.data", "rich")
_PYTHON_PATH = os.environ.get("PYTHONPATH", "").split(os.pathsep)
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FORK_BESIDE_THREADS = "FLEET_TEST_FORK_BESIDE_THREADS"


class Request(NamedTuple):
    """A process to be: its command, as the system would get it, its folder and its whole environment."""

    command: list[str]
    cwd: str
    environ: dict[str, str]


def preload() -> None:
    """Import everything; importing does nothing else, so that a fork is as good as new."""
    import fleet

    for name in _PRELOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(fleet.__path__, "fleet."):
        if not module.name.endswith("__main__") and not module.name.startswith("fleet.engines.ray."):  # Ray has threads
            importlib.import_module(module.name)
    assert len(os.listdir("/proc/self/task")) == 1, "an import has started a thread: nothing can be forked any more"
    _end_quickly()
    gc.freeze()


def _end_quickly() -> None:
    """Have no fork take torch's libraries apart when it ends, which takes most of them longer than to live."""
    from torch._dynamo.utils import dump_compile_times

    atexit.unregister(dump_compile_times)
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False


def share(door: socket.socket) -> socket.socket:
    """Fork a server for every session that asks; returns in the forked ones, with what the session talks through."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        asked, _ = door.accept()
        with asked:
            _, (control,), _, _ = socket.recv_fds(asked, 1, 1)
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs behind it ignore Ctrl-C
            door.close()
            return socket.socket(fileno=control)
        os.close(control)


def serve(control: socket.socket) -> Request:
    """Fork a process for every request until nobody asks any more; returns in the forked ones."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    control.send(b"%d" % os.getpid())
    running: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_who_ended(running)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 3)
        if not message:
            sys.exit(0)
        told = socket.socket(fileno=descriptors[2])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (control, told, *running.values()):
                one.close()
            os.close(woken)
            os.close(wake)
            streams(*descriptors[:2])
            return Request(*json.loads(message))
        running[pid] = told
        told.sendall(f"{pid}\n".encode())
        for descriptor in descriptors[:2]:
            os.close(descriptor)


def _tell_who_ended(running: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in running:  # else an orphan
            with running.pop(pid) as told:
                told.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def streams(out: int, err: int) -> None:
    """Make these stdout and stderr."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in {out, err} - {1, 2}:
        os.close(descriptor)


def prepare(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Change what an interpreter with this command and environment would have found at its start."""
    import numpy
    import torch

    os.environ.clear()
    os.environ.update(environ)
    given = list(filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path[:] = given + [one for one in sys.path[1:] if one not in _PYTHON_PATH]
    sys.argv[:] = command[1:]
    numpy.random.seed()
    if threads := environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    unbuffered = "PYTHONUNBUFFERED" in environ
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw: Any = io.FileIO(number, "w", closefd=False)
        file = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),
            encoding="utf-8",
            errors="strict" if name == "stdout" else "backslashreplace",
            line_buffering=name == "stderr",
            write_through=unbuffered,
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def at_place(command: list[str]) -> list[str]:
    """What is left of a command after this process has moved to the network namespace that it begins with, if any."""
    if command[:3] != _ON_A_HOST:
        return command
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{command[3]}") as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {command[3]}")
    return command[4:]


def run(command: Sequence[str]) -> None:
    """Run `python SCRIPT ...`, `python -m MODULE ...` or `python -c TEXT ...`."""
    _, *rest = command
    rest = [one for number, one in enumerate(rest) if (number, one) != (0, "-u")]
    if rest[0] == "-m":
        sys.argv[:] = rest[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        return
    main = type(sys)("__main__")
    main.__dict__.update(__builtins__=__builtins__)
    sys.modules["__main__"] = main
    if rest[0] == "-c":
        sys.argv[:] = ["-c", *rest[2:]]
        sys.path.insert(0, "")
        exec(compile(rest[1], "<string>", "exec"), main.__dict__)
        return
    sys.argv[:] = rest
    sys.path.insert(0, str(Path(rest[0]).resolve().parent))
    main.__dict__.update(__file__=rest[0])
    exec(compile(Path(rest[0]).read_bytes(), rest[0], "exec"), main.__dict__)


def start(command: Sequence[str], **how: Any) -> ForkedChild | subprocess.Popen[bytes]:
    """What fleetrun calls instead of `subprocess.Popen`.

    Beside threads, as after a restart, nothing is forked, unless a test asks for it: fleetrun's threads only wait.
    """
    forks = threading.active_count() == 1 or FORK_BESIDE_THREADS in os.environ
    return ForkedChild(command, **how) if forks else subprocess.Popen(command, **how)


class ForkedChild:
    """A child of fleetrun that is a fork of it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        start_new_session: bool,
        preexec_fn: Callable[[], None],
        pass_fds: Sequence[int],
    ) -> None:
        assert (stdin, stderr, start_new_session) == (subprocess.DEVNULL, subprocess.STDOUT, True)
        assert command[0] == sys.executable
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPERS)
        self.pid = os.fork()
        if self.pid == 0:
            for number in signal.valid_signals():  # fleetrun's own handlers, of which a new program has none
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.setsid()
            preexec_fn()
            streams(stdout, stdout)
            first = 3
            for kept in (*sorted(pass_fds), os.sysconf("SC_OPEN_MAX")):
                os.closerange(first, kept)
                first = kept + 1
            atexit._clear()  # what fleetrun does at its end
            live(command, env)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def wait(self) -> int:
        """Its exit code; whoever waits calls it once."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def live(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Run a script and end as the interpreter does, above the frames of what was forked, which stay.

    Only what was imported is left as it is: to take it apart costs a fork 0.3 s, which is more than most of them take.
    """
    from fleet.jobfiles import ending

    code: object = 0
    try:
        prepare(command, environ)
        run(command)
    except SystemExit as stop:
        code = stop.code
        if isinstance(stop, ending._Exit):  # it is deleted below frames, which are none of the script's
            ending._exits.append(code)
    except BaseException as error:
        code = 1
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.last_value = error.with_traceback(trace)
        sys.excepthook(type(error), error, trace)
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    if sys.argv[1] == "--at":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        door = socket.socket(socket.AF_UNIX)
        door.bind(f"\0{sys.argv[2]}")
        door.listen()
        preload()
        talks = share(door)
    else:
        preload()
        talks = socket.socket(fileno=int(sys.argv[1]))
    asked = serve(talks)
    os.chdir(asked.cwd)
    launching = importlib.import_module("fleet.launch.processes.child")
    launching.subprocess = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT)  # type: ignore[attr-defined]
    live(at_place(asked.command), asked.environ)
