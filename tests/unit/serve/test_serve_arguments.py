"""What was typed for `fleet-serve`: one line where it cannot work, and help that teaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fleet_serve.command import _options, serve


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "nothing to serve: name the folder of a model, or what to --follow"),
        (["model", "--max_lag", "3"], 2, "--max_lag is for a model that follows a job; add --follow URL"),
        (["--follow", "/data/clicks", "--max_lag", "9.5"], 2, "--max_lag 9.5 is below 10, and a job without changes"),
        (["model", "--listen", "here"], 2, "--listen 'here' has no port; write it as HOST:PORT"),
        (
            ["model", "--listen", "0.0.0.0:0"],
            2,
            "would serve everybody who can reach this address; set FLEET_JOB_TOKEN",
        ),
        (["--follow", "kafka://x", "--listen", "127.0.0.1:0", "--http", "none"], 2, "cannot lie there; give a folder"),
        (["{none}", "--listen", "127.0.0.1:0", "--http", "none"], 1, "no model to serve in "),
        (["model", "--rows", "int2"], 2, "Invalid value for '--rows'"),
    ],
)
def test_what_cannot_work(tmp_path: Path, arguments: list[str], code: int, text: str) -> None:
    given = [argument.format(none=tmp_path / "none") for argument in arguments]
    found = CliRunner().invoke(serve, given)
    assert (found.exit_code, text in found.output) == (code, True), found.output


def test_help_teaches() -> None:
    text = CliRunner().invoke(serve, ["--help"]).output
    for word in (
        "Examples:",
        "--follow URL",
        "/readyz",
        "curl",
        "Authorization: Bearer",
        "proto/serve.proto",
        "SIGTERM",
    ):
        assert word in text


def test_files_of_a_job_that_is_followed_lie_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "shared" / "bases" / "base-1"
    beside, one, other, named = (
        _options(serve.make_context("fleet-serve", given.split()).params).cache_of(folder)
        for given in ("m", "m --follow /data/a", "--follow /data/b", "--follow /data/a --cache c")
    )
    assert beside == tmp_path / "shared" / "bases" / ".fleet-serve"
    assert one.parent == other.parent == tmp_path / "home" / ".cache" / "fleet" / "serve"
    assert one != other
    assert named == Path("c")
