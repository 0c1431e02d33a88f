"""No option is dropped in silence: with every engine it changes the artefact, or is refused in one line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.parser import parse
from fleet_tools.engines.render import ENGINES
from support.rendered import fleetrun, text_of

SAMPLES = {
    "nproc_per_node": ("3",),
    "gpus": ("0,1",),
    "device": ("cuda",),
    "ips": ("10.0.0.1,10.0.0.2",),
    "master": ("10.0.0.1:6001",),
    "nnodes": ("2",),
    "rank": ("1",),
    "server_num": ("3",),
    "worker_num": ("3",),
    "server_device": ("cuda",),
    "servers": ("10.0.0.1:6170",),
    "workers": ("10.0.0.1",),
    "start_port": ("7000",),
    "log_dir": ("elsewhere",),
    "max_restart": ("3",),
    "durable": ("kept",),
    "journal": ("always",),
    "standby": ("sync",),
    "scale": ("workers to keep servers at 70% of a core",),
    "chaos": ("kill server every 5s",),
    "seed": ("3",),
    "tls": (),
    "metrics_port": ("9000",),
    "dashboard": ("9001",),
    "trace": ("2:3",),
    "tensorboard": ("curves",),
    "dry_run": (),
    "banner": (),
    "selfcheck": (),
    "module": (),
}
OF_NO_ENGINE = {"script", "script_args", "render", "version", "verify_journal", "quiet"}
"""What says no more than which job it is. Where no fleetrun runs, `--quiet` asks for what is so anyway."""
OF_COLLECTIVE = {"nproc_per_node", "gpus", "ips"}
OF_SERVERS = {"journal", "durable", "server_device", "standby", "scale"}


def test_every_option_has_a_sample() -> None:
    names = {option.name for option in parse.params}
    assert names == set(SAMPLES) | OF_NO_ENGINE


def line(name: str, kind: str) -> tuple[str, ...]:
    """A command line with this option, and others that it cannot be without."""
    option = next(one for one in parse.params if one.name == name)
    assert isinstance(option, click.Option)
    written = next(one for one in option.opts if one.startswith("--"))
    value = SAMPLES[name]
    words = {"collective": {"--nproc_per_node": "2"}, "servers": {"--server_num": "1", "--worker_num": "1"}}[kind]
    if name == "master":
        words["--nnodes"] = "2"
    if kind == "servers" and name in ("journal", "max_restart", "standby"):
        words["--durable"] = "kept"
    if name == "gpus":
        words.pop("--nproc_per_node")
    if name == "scale":
        words |= {"--worker_num": "1:4", "--durable": "kept"}
    words.pop(written, None)
    found = [word for pair in words.items() for word in pair]
    if name in ("dashboard", "tensorboard"):
        return (*found, f"{written}={value[0]}", "train.py")
    return (
        *found,
        written,
        *value,
        *(() if name == "selfcheck" else ("train",) if name == "module" else ("train.py",)),
    )


def answer(engine: str, words: tuple[str, ...]) -> tuple[str, str]:
    """The artefact without the command line that it repeats, and what was refused; one of them is empty."""
    try:
        text = text_of(engine, words)
    except UsageError as error:
        return "", str(error)
    return "\n".join(row for row in text.splitlines() if not row.startswith("# fleetrun")), ""


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_option_changes_the_artefact_or_is_refused(engine: str, name: str) -> None:
    kinds = (
        ["collective"] if name in OF_COLLECTIVE else ["servers"] if name in OF_SERVERS else ["collective", "servers"]
    )
    option = next(one for one in parse.params if one.name == name)
    for kind in kinds:
        words = line(name, kind)
        found, said = answer(engine, words)
        if said:
            assert "\n" not in said
            assert "--" in said
            continue
        at = next(number for number, word in enumerate(words) if word.partition("=")[0] in option.opts)
        end = at + 1 if SAMPLES[name] == () or "=" in words[at] else at + 2
        without, _ = answer(engine, (*words[:at], *words[end:]))  # empty where the job cannot be said without it
        assert found != without, f"--{name} changes nothing with --render {engine}: {words}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--render", "nomad", "train.py"), "--render nomad: no such engine; write one of slurm"),
        (("--nnodes", "2:4", "--render", "k8s", "train.py"), "--nnodes 2:4 needs --master"),
        (("--server_num", "1", "--render", "k8s", "train.py"), "--server_num and --worker_num go together"),
        (("--server_num", "1", "--worker_num", "1", "--render", "k8s", "--standby", "sync", "train.py"), "--standby"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    told = fleetrun(tmp_path, *words)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1), told.stderr
    assert told.stderr.startswith("fleetrun: ")
    assert said in told.stderr
