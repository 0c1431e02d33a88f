"""The runner of public scripts, with scripts made here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest

from public import data
from public.listing import ListError, Script, chosen, read_list, read_lists
from public.running import end, judge, run, values_of
from support.processes import told

ENTRY = """
[[script]]
name = "small/one"
version = "1.8"
source = "nowhere@1"
files = ["one/train.py"]
cwd = "one"
command = ["python", "train.py"]
value = 'loss (\\S+)'
expect = "falls"
timeout_s = 60
"""


def script(**changes: Any) -> Script:
    fields: dict[str, Any] = {
        "name": "small/one",
        "version": "1.8",
        "source": "nowhere@1",
        "files": ("one/train.py",),
        "cwd": "one",
        "command": ("python", "train.py"),
        "value": r"loss (\S+)",
        "expect": "falls",
        "timeout_s": 60.0,
    }
    return Script(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts" / "one").mkdir(parents=True)
    return tmp_path / "scripts"


def write(folder: Path, code: str) -> None:
    (folder / "one" / "train.py").write_text(textwrap.dedent(code))


def listed(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.toml"
    path.write_text(text)
    return path


def test_a_script_whose_loss_falls_passes_in_a_copy_of_its_folder(folder: Path, tmp_path: Path) -> None:
    write(folder, "open('left', 'w')\nfor one in (3, 2, 1): print('loss', one)")
    outcome = run(script(), folder, tmp_path / "copy")
    assert outcome.passed
    assert outcome.values == (3, 2, 1)
    assert not (folder / "one" / "left").exists()
    assert (tmp_path / "copy" / "one" / "left").exists()


def test_python_in_a_command_is_this_interpreter_also_for_what_it_starts(folder: Path, tmp_path: Path) -> None:
    write(
        folder,
        """
        import os, subprocess, sys
        print("loss 2", sys.executable)
        print("loss 1", subprocess.check_output(["python", "-c", "import sys; print(sys.executable)"], text=True))
        """,
    )
    assert run(script(), folder, tmp_path / "copy").output.count(sys.executable) == 2


def test_fleetrun_in_a_command_is_the_one_beside_this_interpreter(folder: Path, tmp_path: Path) -> None:
    write(folder, "")
    outcome = run(script(command=("fleetrun", "--help"), value="(-)"), folder, tmp_path / "copy")
    assert "fleetrun" in outcome.output
    assert "0 values" in outcome.problem


def test_a_failure_is_one_line_with_the_name_the_exit_code_and_the_last_lines(folder: Path, tmp_path: Path) -> None:
    write(folder, "print('loss 2')\nprint('so far')\nraise SystemExit('no such file')\n")
    outcome = run(script(), folder, tmp_path / "copy")
    assert outcome.problem == ("small/one: ended with exit code 1; its last lines: loss 2 | so far | no such file")
    assert not outcome.passed


def test_a_loss_that_rises_is_a_failure(folder: Path, tmp_path: Path) -> None:
    write(folder, "for one in (1, 2): print('loss', one)")
    assert run(script(), folder, tmp_path / "copy").problem == (
        "small/one: 2 values did not fall: 1 at first, 2 at last"
    )


def test_a_script_that_does_not_end_is_stopped(folder: Path, tmp_path: Path) -> None:
    write(folder, "import time; time.sleep(600)")
    outcome = run(script(timeout_s=0.2), folder, tmp_path / "copy")
    assert outcome.problem == "small/one: did not end within 0.2 s; it printed nothing"


def test_what_a_script_has_started_ends_with_it_also_in_sessions_of_its_own(folder: Path) -> None:
    write(
        folder,
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        open("pid", "w").write(f"{child.pid}\\n")
        child.wait()
        """,
    )
    process = subprocess.Popen([sys.executable, "train.py"], cwd=folder / "one", start_new_session=True)
    child = int(told(folder / "one" / "pid", 60, "the script to have started its child"))
    end(process)
    assert process.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_what_lies_beside_logs_and_variables(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "7")
    (folder / "common").mkdir()
    (folder / "common" / "numbers.txt").write_text("5 4")
    write(
        folder,
        """
        import os
        assert "PADDLE_TRAINER_ID" not in os.environ
        with open(os.environ["WHERE"] + "/common/numbers.txt") as file, open("worker.log", "w") as log:
            for one in file.read().split(): print("loss", one, file=log)
        """,
    )
    one = script(beside=("common",), env={"WHERE": "{root}"}, logs=("*.log",))
    assert run(one, folder, tmp_path / "copy").values == (5, 4)


def test_a_data_function_writes_into_the_copy(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(cwd: Path) -> None:
        (cwd / "words.txt").write_text("loss 9\nloss 8\n")

    monkeypatch.setattr(data, "functions", lambda: {"here": {"words": words}})
    write(folder, "print(open('words.txt').read())")
    assert run(script(data="words"), folder, tmp_path / "copy").values == (9, 8)
    with pytest.raises(LookupError, match="0 functions of compat/tests/public/data are called 'sounds'"):
        run(script(data="sounds"), folder, tmp_path / "other")


def test_the_mean_of_the_last_fifth_is_held_against_that_of_the_first() -> None:
    values = [4.0, 6.0, 9, 9, 9, 9, 9, 9, 3.0, 5.0]
    assert judge(values, "falls") == ""
    assert judge(values, "rises") == "10 values did not rise: 5 at first, 4 at last"
    assert judge([1.0, float("nan"), 0.5], "falls") == "value 2 of 3 is nan"
    assert judge([1.0], "falls").startswith("printed 1 values")


def test_numbers_may_be_printed_as_arrays() -> None:
    assert values_of("loss [0.5], loss [1e-3] loss none", r"loss (\S+)") == (0.5, 0.001)


def test_a_list_is_read(tmp_path: Path) -> None:
    more = 'with = ["b"]\ndata = "words"\nenv = {A = "1"}\nlogs = ["*.log"]\n'
    assert read_list(listed(tmp_path, ENTRY + more)) == [
        script(beside=("b",), data="words", env={"A": "1"}, logs=("*.log",))
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("cwd =", "folder ="), "script 1 (small/one): 'folder' is no key of a script; known are command, cwd, data,"),
        (('version = "1.8"\n', ""), "script 1 (small/one): 'version' is missing"),
        (('"falls"', '"sinks"'), "expect must be 'falls' or 'rises', got 'sinks'"),
        (("60", "0"), "timeout_s must be more than 0, got 0"),
        (("60", '"60"'), "timeout_s must be a number of seconds, got '60'"),
        (('["python", "train.py"]', '"train.py"'), "command must be a list of texts, got 'train.py'"),
        (("(\\S+)", "\\S+"), "value must have one group, which is the number"),
        (("(\\S+)", "("), "value is no regular expression"),
        (('cwd = "one"', 'cwd = "../one"'), "'../one' leads out of the folder of scripts"),
        (("[[script]]", "[script]"), "[script] must be [[script]]"),
        (("[[script]]", "scripts = 1\n[[script]]"), "'scripts' is unknown at the top"),
        (("= 60", "="), "a.toml is not TOML"),
    ],
)
def test_a_list_that_says_nonsense_is_refused_in_one_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    text = ENTRY.replace(*change)
    assert text != ENTRY
    with pytest.raises(ListError) as caught:
        read_list(listed(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_name_stands_for_one_script_in_all_lists(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ENTRY)
    (tmp_path / "b.toml").write_text(ENTRY)
    with pytest.raises(ListError, match="b.toml: the script 'small/one' is in a.toml already"):
        read_lists(tmp_path)


def test_scripts_are_chosen_by_name_or_by_its_beginning() -> None:
    scripts = [script(name=name) for name in ("book/a", "book/b", "bookish/c")]
    assert [one.name for one in chosen(scripts, ["book"])] == ["book/a", "book/b"]
    assert [one.name for one in chosen(scripts, ["bookish/c"])] == ["bookish/c"]
    with pytest.raises(ListError, match="no script is called 'boo'; --list shows all names"):
        chosen(scripts, ["boo"])


def test_what_is_missing_is_known(folder: Path) -> None:
    assert script().missing(folder) == ["one/train.py"]


def test_a_folder_without_any_of_the_scripts_is_a_failure_that_names_one(tmp_path: Path) -> None:
    run_py = Path(__file__).with_name("run.py")
    command = [sys.executable, str(run_py), "--json", "--scripts", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ})
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"run.py: {tmp_path} has none of these scripts; " in done.stderr
