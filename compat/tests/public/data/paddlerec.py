"""What the trainers of PaddleRec read: configurations with more epochs than a demonstration has, and samples."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

SEED = 19


def longer_configs(folder: Path) -> None:
    """Beside each model's `config.yaml` a `longer.yaml` that shows whether the model learns.

    A demonstration has one epoch of few samples at a rate of 1e-4, and writes a checkpoint of everything after it: what
    it prints is the noise of its batches. Here it is 6 epochs of Adam at 2e-3 that print every batch.
    """
    for path in sorted(folder.glob("paddlerec/models/**/config.yaml")):
        text = _longer(path.read_text())
        if path.parent.name == "ffm":  # whose rows have so many numbers for each of 39 fields: 1.5 GB, without moments
            text = text.replace("sparse_feature_dim: 9", "sparse_feature_dim: 2")
        path.with_name("longer.yaml").write_text(text)


def cluster_configs(folder: Path) -> None:
    """Beside each `config.yaml` an `async.yaml`, `sync.yaml` and so on: `longer.yaml` by two servers and two workers.

    A worker takes whole files, so the samples are halved.
    """
    for path in sorted(folder.glob("paddlerec/models/**/config.yaml")):
        for mode in ("async", "half_async", "sync", "geo"):
            path.with_name(f"{mode}.yaml").write_text(_in_a_cluster(_longer(path.read_text()), mode))
        for samples in path.parent.glob("data/**/train/*.txt"):
            lines = samples.read_text().splitlines()
            for half in (0, 1):
                _write(samples.with_name(f"half-{half}.txt"), lines[half::2])
            samples.unlink()


def _in_a_cluster(text: str, mode: str) -> str:
    made = rf"\1class: local_cluster_train\n\1worker_num: 2\n\1server_num: 2\n\1distribute_strategy: {mode}"
    text = re.sub(r"^( +)class: train$", made, text, flags=re.MULTILINE)
    return re.sub(r"^mode: \[(\w+),.*\]", r"mode: \1", text, flags=re.MULTILINE)


def _longer(text: str) -> str:
    for pattern, new in (
        (r" +print_interval:.*\n", ""),
        (r"( +)epochs: *\d+.*", r"\1epochs: 6\n\1print_interval: 1"),
        (r"( +)save_(checkpoint|inference)_interval:.*", r"\1save_\2_interval: 100"),
        (r'( +)init_model_path: "increment/\d+"', r'\1init_model_path: "increment/5"'),
        # Tables of gigabytes, of which the samples use a few rows.
        (r"( +)sparse_feature_number: 60000000", r"\1sparse_feature_number: 20000"),
        (r"( +)sparse_feature_dim: 1000001", r"\1sparse_feature_dim: 20000"),
        (r"( +)thread_num:.*", r"\1thread_num: 1"),
        (r"( +)class: *(SGD|Adam)\n +learning_rate: 0.0001", r"\1class: Adam\n\1learning_rate: 0.002"),
    ):
        text = re.sub(rf"^{pattern}", new, text, flags=re.MULTILINE)
    return text


def census_samples(folder: Path) -> None:
    """People of a census: whether they married, what they earn, and 499 columns, of which few decide."""
    longer_configs(folder)
    rng = np.random.default_rng(SEED)
    columns = np.zeros((200, 499))
    columns[:, :10] = rng.random((200, 10)).round(3)
    married, earns = columns[:, 0] > columns[:, 1], columns[:, 2] > columns[:, 3]
    lines = [
        ",".join(map(str, (int(one), int(other), *row)))
        for one, other, row in zip(married, earns, columns.tolist(), strict=True)
    ]
    for model in ("mmoe", "share-bottom"):
        _write(folder / f"paddlerec/models/multitask/{model}/data/train/train_data.txt", lines)


def purchase_samples(folder: Path) -> None:
    """What was shown, clicked and bought: field 205 decides about clicks, and with 206 about purchases."""
    longer_configs(folder)
    rng = np.random.default_rng(SEED)
    lines = []
    for number in range(300):
        one, other, more = rng.integers(1, 20, 3)
        clicked, bought = int(one > 9), int(one > 9 and other > 9)
        lines.append(f"{number},{clicked},{bought},{number},205:{one},206:{other + 20},301:{more + 40},301:{more + 41}")
    _write(folder / "paddlerec/models/multitask/esmm/data/train/small.txt", lines)


def title_samples(folder: Path) -> None:
    """Queries, titles that share their words, and titles that do not: slots 1, 2 and 3."""
    longer_configs(folder)
    rng = np.random.default_rng(SEED)
    lines = []
    for _ in range(40):
        query = rng.integers(1, 500, 5)
        slots = {1: query, 2: query + 500, 3: rng.integers(1001, 1500, 5)}
        lines.append(" ".join(f"{slot}:{word}" for slot, words in slots.items() for word in words))
    _write(folder / "paddlerec/models/match/multiview-simnet/data/train/train.txt", lines)


def film_samples(folder: Path) -> None:
    """Who gave which film how many stars; beside the folder of the model, which has the configuration."""
    path = folder / "config.yaml"
    path.with_name("longer.yaml").write_text(_longer(path.read_text()))
    rng = np.random.default_rng(SEED)
    slots = ["logid", "time", "userid", "gender", "age", "occupation", "movieid", "title", "genres", "label"]
    lines = []
    for number in range(1000):
        user, film = rng.integers(1, 40, 2)
        values = (number, number, user, user % 2 + 50, user % 7 + 60, user % 5 + 70, film + 100, film + 200)
        row = (*values, film % 9 + 300, 1 + (user + film) % 5)
        lines.append(" ".join(f"{slot}:{value}" for slot, value in zip(slots, row, strict=True)))
    _write(folder.parent / "data/train/data.txt", lines)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")
