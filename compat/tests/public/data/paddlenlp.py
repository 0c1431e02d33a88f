"""Files of the form that examples of PaddleNLP read; what the library would download is in `home/datasets`.

A script's line says PPNLP_HOME = "{root}/.../home". The library compares checksums, finds that these are not the
originals, and takes what `paddle.utils.download` gives it: the folder that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path

import numpy as np

_PARTS = (("train", 512), ("dev", 64), ("test", 64))
_SMALL_TRANSFORMER = """
use_gpu: False
random_seed: 1
init_from_checkpoint: ""
init_from_pretrain_model: ""
save_model: trained
print_step: 2
save_step: 30
root: None
batch_size: 256
pool_size: 2048
sort_type: pool
shuffle: True
shuffle_batch: True
pad_factor: 8
max_length: 16
bos_idx: 0
eos_idx: 1
unk_idx: 2
epoch: 4
learning_rate: 1.0
beta1: 0.9
beta2: 0.997
eps: "1e-9"
warmup_steps: 40
label_smooth_eps: 0.1
n_layer: 2
n_head: 4
d_model: 32
d_inner_hid: 64
dropout: 0.1
weight_sharing: True
"""


def penn_treebank(folder: Path) -> None:
    """PTB, where the library looks for it and where a script does that has it downloaded by hand."""
    random = np.random.default_rng(1)
    for part, count in (("train", 1000), ("valid", 100), ("test", 100)):
        starts = random.integers(0, 30, count)
        lengths = random.integers(6, 13, count)
        rows = [
            " ".join(f"w{(start + n) % 30}" for n in range(length))
            for start, length in zip(starts, lengths, strict=True)
        ]
        for place in ("home/datasets/PTB", "data"):
            _write(folder / place / f"simple-examples/data/ptb.{part}.txt", (f" {row} " for row in rows))


def couplets(folder: Path) -> None:
    """Pairs of lines, each sign of the second following from that of the first."""
    place = folder / "home/datasets/machine_translation/CoupletDataset/couplet"
    _pairs(lambda part, side: place / f"{part}_{('src', 'tgt')[side]}.tsv", "\x02")
    _write(place / "vocab.txt", ["<unk>", "<s>", "</s>", *_words(2)])
    _names_of_old_python(folder)


def vietnamese(folder: Path) -> None:
    """IWSLT 15: sentences of 3 to 6 words, each of which has one translation."""
    place = folder / "home/datasets/machine_translation/IWSLT15/iwslt15.en-vi"
    names = {"train": "train", "dev": "tst2012", "test": "tst2013"}
    _pairs(lambda part, side: place / f"{names[part]}.{('en', 'vi')[side]}", " ")
    for side, language in enumerate(("en", "vi")):
        _write(place / f"vocab.{language}", ["<unk>", "<s>", "</s>", *_words(1, side)])
    _names_of_old_python(folder)


def german(folder: Path) -> None:
    """WMT 14, and the settings of a small Transformer."""
    place = folder / "home/datasets/machine_translation/WMT14ende/WMT14.en-de/wmt14_ende_data_bpe"
    names = {"train": "train.tok.clean", "dev": "newstest2013.tok", "test": "newstest2014.tok"}
    _pairs(lambda part, side: place / f"{names[part]}.bpe.33708.{('en', 'de')[side]}", " ")
    _write(place / "vocab_all.bpe.33708", ["<s>", "<e>", "<unk>", *_words(2)])
    _write(folder / "configs/small.yaml", [_SMALL_TRANSFORMER.strip()])


def opinions(folder: Path) -> None:
    """ChnSentiCorp: texts of 12 words, a third of which say what the writer thinks."""
    random = np.random.default_rng(3)
    words = np.array(_words(2))
    for part, count in _PARTS:
        rows = ["label\ttext_a"]
        for number in range(count):
            telling = words[:10] if number % 2 else words[10:20]
            row = np.where(random.random(12) < 0.33, random.choice(telling, 12), random.choice(words[20:], 12))
            rows.append(f"{number % 2}\t{''.join(row)}")
        _write(folder / f"home/datasets/chnsenticorp/{part}.tsv", rows)
    for name in ("senta_word_dict.txt", "dict.txt"):
        _write(folder / name, ["[PAD]", "[UNK]", *words])


def pairs_of_questions(folder: Path) -> None:
    """LCQMC: pairs of questions that ask the same where they have their words in common."""
    random = np.random.default_rng(4)
    words = np.array(_words(2))
    for part, count in _PARTS:
        rows = ["text_a\ttext_b\tlabel"]
        for number in range(count):
            first, other = random.choice(words[:20], 6), random.choice(words[20:], 6)
            second = random.permutation(first) if number % 2 else other
            rows.append(f"{''.join(first)}\t{''.join(second)}\t{number % 2}")
        _write(folder / f"home/datasets/lcqmc/{part}.tsv", rows)
    _write(folder / "simnet_word_dict.txt", ["[PAD]", "[UNK]", *words])


def tagged_words(folder: Path) -> None:
    """Sentences of signs with a tag each: two kinds of words of two signs, and signs that are none."""
    random = np.random.default_rng(5)
    signs = _words(2)
    for part, count in (("train", 320), ("test", 64)):
        rows = ["text_a\tlabel"]
        for _ in range(count):
            kinds = random.integers(0, 3, int(random.integers(3, 7)))
            text, tags = [], []
            for kind in kinds:
                first = signs[int(random.integers(0, 10)) + 10 * int(kind)]
                text += [first] if kind == 2 else [first, signs[30 + int(random.integers(0, 10))]]
                tags += ["O"] if kind == 2 else [("n", "v")[kind] + "-B", ("n", "v")[kind] + "-I"]
            rows.append("\x02".join(text) + "\t" + "\x02".join(tags))
        _write(folder / f"data/{part}.tsv", rows)
    _write(folder / "data/word.dic", [*signs, "OOV"])
    _write(folder / "data/tag.dic", ["n-B", "n-I", "v-B", "v-I", "O"])
    _write(folder / "data/q2b.dic", ["\uff01\t!"])


def daily_cases(folder: Path) -> None:
    """Cases of a disease in two regions, counted up day by day; every seventh day is a slow one."""
    days = [date(2020, 1, 22) + timedelta(days=number) for number in range(200)]
    heads = ",".join(f"{day.month}/{day.day}/{day:%y}" for day in days)
    new = [int(200 + 150 * np.sin(number / 15) - 40 * (number % 7 == 0)) for number in range(len(days))]
    rows = [f",Region {n},{n}.0,{n}.5," + ",".join(map(str, (n * np.cumsum(new)).tolist())) for n in (1, 2)]
    place = folder / "time_series_covid19_confirmed_global.csv"
    _write(place, [f"Province/State,Country/Region,Lat,Long,{heads}", *rows])


def _names_of_old_python(folder: Path) -> None:
    """The library asks for `collections.Iterable`, which Python had until 3.9; its line has this on PYTHONPATH."""
    lines = ["import collections.abc", "", "collections.Iterable = collections.abc.Iterable"]
    _write(folder / "home/python/sitecustomize.py", lines)


def _words(sides: int, first: int = 0) -> list[str]:
    """Twenty words of one sign for each side; all of them are common signs."""
    return [chr(0x4E00 + 40 * side + number) for side in range(first, first + sides) for number in range(20)]


def _pairs(path: Callable[[str, int], Path], between: str) -> None:
    """Two files for each part: sentences, and the same with every word replaced by its partner."""
    random = np.random.default_rng(2)
    for part, count in _PARTS:
        rows = [random.integers(0, 20, int(random.integers(3, 7))) for _ in range(count)]
        for side in (0, 1):
            words = np.array(_words(1, side))
            _write(path(part, side), (between.join(words[row]) for row in rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
