"""The examples resnet50, transformer and bert: what they learn, on one worker and on two, stopped and resumed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from support.data.example_data import EXAMPLES, modules_of, write_pairs, write_text
from support.jobs import clean_environ, fleetrun, python, running
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)
NAMES = ("resnet50", "transformer", "bert")
LEARNS = {
    "resnet50": ("--data", "synthetic", "top1", 0.95),
    "transformer": ("--data", "pairs.tsv", "bleu", 80.0),
    "bert": ("--data", "text.txt", "accuracy", 0.35),
}
"""What each is trained on, and what it must come to; guessing gives 0.125, 0 and 0.29."""
STEPS = {"resnet50": 60, "transformer": 130, "bert": 200}
SAME = {
    "resnet50": (("--data", "images", "--processes", 1, "--sync-batch-norm", "--batch-size"), 16),
    "transformer": (("--data", "pairs.tsv", "--no-bleu", "--batch-size"), 512),
    "bert": (("--data", "text.txt", "--batch-size"), 32),
}
"""Options and the batch of one worker in the runs that are compared; two have half of it each."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_pairs(folder / "pairs.tsv")
    write_text(folder / "text.txt")
    with modules_of("resnet50", "make_images") as (make_images,):
        make_images.make(folder / "images", {"train": 80, "val": 21}, num_classes=4, size=(80, 60))
    return folder


def alone(name: str, *options: object, cwd: Path) -> dict[str, Any]:
    """Train in one process, in the folder of the data; the line of JSON at the end."""
    said = python(EXAMPLES / name / "train.py", *options, cwd=cwd, warm=True, environ={"FLEET_DEVICE": "cpu"})
    return result_of(said)


def together(name: str, *options: object, cwd: Path, out: Path) -> dict[str, Any]:
    """Train with two workers."""
    job = fleetrun(
        *("--nproc_per_node", 2, "--device", "cpu", "--quiet", "--log_dir", out / "log"),
        *(EXAMPLES / name / "train.py", "--out", out, *options),
        cwd=cwd,
        environ={"OMP_NUM_THREADS": "1"},
        warm=True,
    )
    assert job.code == 0, job.err + job.out
    return result_of(job.out)


def result_of(said: str) -> dict[str, Any]:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    assert len(lines) == 1, said
    found: dict[str, Any] = json.loads(lines[0])
    return found


def refused(name: str, *options: object, cwd: Path, environ: dict[str, str] | None = None) -> str:
    """The one line with which an example does not begin."""
    command = [sys.executable, EXAMPLES / name / "train.py", *options]
    variables = {**clean_environ(), "FLEET_DEVICE": "cpu", **(environ or {})}
    with running(command, cwd, variables, warm=True) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert len(err.splitlines()) == 1, err
    return err


@pytest.mark.parametrize("name", NAMES)
def test_it_learns(name: str, data: Path, tmp_path: Path) -> None:
    *options, metric, least = LEARNS[name]
    found = alone(name, "--out", tmp_path, "--steps", STEPS[name], *options, "--peak-tflops", 1, cwd=data)
    assert found[metric] > least
    assert json.loads((tmp_path / "result.json").read_text()) == found
    assert found["mfu"] == pytest.approx(found["tflops"])
    assert found["timed_steps"] == STEPS[name] - 10
    assert found["memory_bytes"] > 1 << 26
    assert list((tmp_path / "tensorboard").glob("events*"))
    assert (tmp_path / "checkpoints" / f"step-{STEPS[name]:08}" / "manifest.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_two_workers_learn_what_one_does_and_a_stop_changes_nothing(name: str, data: Path, tmp_path: Path) -> None:
    options, batch = SAME[name]
    one = tmp_path / "one"
    command = ("--out", one, "--steps", 4, "--save-every", 2, *options, batch)
    whole = alone(name, *command, cwd=data)
    shutil.rmtree(one / "checkpoints" / "step-00000004")
    resumed = alone(name, *command, "--resume", cwd=data)
    metrics = whole.keys() & {"loss", "held_loss", "accuracy", "top1", "top5"}
    assert len(metrics) >= 3
    assert {key: resumed[key] for key in metrics} == {key: whole[key] for key in metrics}  # to the last bit
    both = together(name, "--steps", 4, *options, batch // 2, cwd=data, out=tmp_path / "two")
    assert both["workers"] == 2
    assert both["held_loss"] == pytest.approx(whole["held_loss"], rel=1e-3)
    untrained = alone(name, "--out", tmp_path / "none", "--steps", 1, "--lr", 1e-9, *options, batch, cwd=data)
    assert abs(both["held_loss"] - whole["held_loss"]) < 0.01 * abs(untrained["held_loss"] - whole["held_loss"])


@pytest.mark.parametrize(
    ("name", "strategies"),
    sweep(
        NAMES,
        [
            "--amp bf16 --recompute --sharding 2 --clip-norm 1",
            "--localsgd 2 --optimizer sgd --lr 0.01",
            "--adaptive-localsgd 2 --optimizer sgd --lr 0.01 --skip-nonfinite",
            "--post-local 2 --optimizer adamw --lr 1e-3 --fused-optimizer",
            "--dgc 0.9 --optimizer sgd --lr 0.01",
            "--sharding 1 --optimizer adam --lr 1e-3 --auto",
            "--sharding 3 --sharding-degree 1 --half-allreduce bf16",
            "--gradient-merge 2 --half-allreduce fp16",
            "--lamb --optimizer adamw --lr 1e-3",
            "--lars --optimizer sgd --lr 0.01",
            "--amp fp16",
        ],
        sample=lambda name, strategies: (
            (name, strategies.split()[0]) in {("transformer", "--amp"), ("bert", "--dgc")} and "fp16" not in strategies
        ),
    ),
)
def test_strategies_from_the_command_line(name: str, strategies: str, data: Path, tmp_path: Path) -> None:
    options = () if name != "transformer" else ("--no-bleu", "--data", "pairs.tsv")
    found = together(name, "--steps", 4, "--save-every", 2, *options, *strategies.split(), cwd=data, out=tmp_path)
    assert found["held_loss"] < 6
    assert (tmp_path / "checkpoints" / "step-00000004" / "manifest.json").exists()


MISTAKES = [
    ("bert", "--data nowhere.txt", "bert: --data nowhere.txt: No such file or directory; give a file of text"),
    ("bert", "--data empty", "bert: --data empty has no text in it"),
    ("bert", "--data few", "sequences of 32 tokens, of which 1 are to train on, but a step takes 32; give more text"),
    ("bert", "--preset huge", "argument --preset: invalid choice: 'huge'"),
    ("bert", "--localsgd 8", "strategy.localsgd averages parameters of torch.optim.SGD, got AdamW; use strategy.post"),
    ("bert", "--optimizer sgd", "--optimizer sgd needs another learning rate than 0.003, which is for adamw; give"),
    ("bert", "--gradient-merge 7", "--steps 300 is in the middle of an update of --gradient-merge 7"),
    ("bert", "--resume", "has no run to go on with; leave --resume out"),
    ("transformer", "--data nowhere.tsv", "give a file of pairs, a folder of .mo files, or synthetic"),
    ("transformer", "--data empty", "--data empty has no text in it"),
    ("transformer", "--data few", "--data few, pair 1: it must be a sentence, a tab and its translation"),
    ("transformer", "--data alphabet", "sentencepiece finds no 256 pieces in this text (Vocabulary size is smaller"),
    ("transformer", "--data images", "images has no translated messages (.mo files) for language 'de'"),
    ("transformer", "--data pairs.tsv --batch-size 32", "--batch-size 32 is too small: a batch has at least 8"),
    ("transformer", "--data synthetic:9", "--data synthetic:9 is too few: at least 10 pairs are needed"),
    ("transformer", "--kernel-search wide", "--kernel-search wide is for compiled models; give --compile or --auto"),
    ("resnet50", "--data nowhere", "nowhere/train: No such file or directory; --data takes a folder with train/"),
    ("resnet50", "--data images --batch-size 81", "has 80 images, a step takes 81; give more, or a smaller"),
    ("resnet50", "--data synthetic:none", "write synthetic:N with the number of samples"),
    ("resnet50", "--offload", "give --sharding 1, 2 or 3 too"),
]


@pytest.mark.parametrize(("name", "options", "words"), MISTAKES)
def test_mistakes_are_told_in_one_line(name: str, options: str, words: str, data: Path, tmp_path: Path) -> None:
    (data / "empty").write_text("\n")
    (data / "alphabet").write_text("".join(f"{chr(number)}\t{chr(number + 1)}\n" for number in range(0x4E00, 0x5000)))
    (data / "few").write_text("the cat sees the mouse and the mouse sees the cat\n" * 4)
    assert words in refused(name, "--out", tmp_path / "out", *options.split(), cwd=data)


def test_a_broken_image_is_named_in_one_line(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "images", tmp_path / "images")
    for broken in (tmp_path / "images" / "train" / "class-001").glob("*.jpg"):
        broken.write_bytes(broken.read_bytes()[:300])
    said = refused("resnet50", "--out", "out", "--data", "images", "--processes", 1, cwd=tmp_path)
    assert re.fullmatch(
        r"resnet50: images/train/class-001/\d+.jpg cannot be decoded \(.+\); remove it or mend it\n", said
    )


def test_a_run_is_not_mixed_with_another(data: Path, tmp_path: Path) -> None:
    alone("resnet50", "--out", tmp_path, "--steps", 2, cwd=data)
    again = refused("resnet50", "--out", tmp_path, "--steps", 2, cwd=data)
    assert f"--out {tmp_path} has checkpoints of an earlier run: give --resume, or another --out" in again
    other = refused("bert", "--out", tmp_path, "--steps", 2, "--resume", cwd=data)
    assert "is a run with example 'resnet50', and this is 'bert'; give another --out" in other
    note = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**note, "example": "bert"}))
    foreign = refused("bert", "--out", tmp_path, "--steps", 2, "--resume", cwd=data)  # Fleet's own look at it
    assert "checkpoints/step-00000002" in foreign


@pytest.mark.parametrize(
    ("name", "module", "package", "options"),
    [
        ("resnet50", "PIL", "Pillow", "--data images"),
        ("transformer", "sentencepiece", "sentencepiece", "--data pairs.tsv"),
        ("transformer", "sacrebleu", "sacrebleu", "--data pairs.tsv"),
        ("bert", "tokenizers", "tokenizers", "--data text.txt"),
    ],
)
def test_a_package_that_is_missing_is_named(
    name: str, module: str, package: str, options: str, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / f"{module}.py").write_text("raise ImportError")
    hidden = {"PYTHONPATH": str(tmp_path / "hidden")}
    said = refused(name, "--out", tmp_path / "out", *options.split(), cwd=data, environ=hidden)
    assert f"needs {package}: pip install {package}, or pip install 'torch-fleet[examples]'" in said


@pytest.mark.parametrize("name", NAMES)
def test_it_says_how_many_of_its_lines_are_fleets(name: str) -> None:
    _, docstring, code = (EXAMPLES / name / "train.py").read_text().split('"""', 2)
    lines = [line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")]
    own = [line for line in lines if re.search(r"\bfleet\b", line)]
    assert f"Of its {len(lines)} lines {len(own)} are Fleet's" in docstring
    assert len(own) <= 20
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert re.search(rf"^\| {name} \|.*\| {len(lines)}, {len(own)} \|$", page, flags=re.MULTILINE)
