"""Classic datasets: made-up samples have the shape of the originals, and originals are read where they are."""

from __future__ import annotations

import gzip
import importlib
import io
import itertools
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fleet.errors import UsageError
from fleet_paddle.batches import reader
from fleet_paddle.batches.reader import batch
from fleet_paddle.dataset import (
    cifar,
    common,
    conll05,
    criteo,
    flowers,
    imdb,
    imikolov,
    mnist,
    movielens,
    original_files,
    uci_housing,
    wmt14,
    wmt16,
)

savemat = importlib.import_module("scipy.io").savemat  # here: it sets a variable when it is first imported


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(original_files, "_said", set())
    return tmp_path


def first(samples: Iterator[Any], count: int = 3) -> list[Any]:
    return list(itertools.islice(samples, count))


def archive(path: Path, files: dict[str, str | bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as made:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))


def test_it_is_said_once_that_samples_are_made_up(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    first(uci_housing.train()())
    first(uci_housing.test()())
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert f"no housing.data in {folder}/uci_housing; uci_housing is synthetic" in said[0]


def test_made_up_houses_can_be_learnt_as_the_tutorial_does() -> None:
    assert [len(list(part()())) for part in (uci_housing.train, uci_housing.test)] == [404, 102]
    weights, bias = np.zeros((13, 1), np.float32), 0.0
    batches = batch(reader.shuffle(uci_housing.train(), 500), 20)
    first_loss = 0.0
    for _ in range(100):
        for samples in batches():
            facts, prices = (np.stack(side) for side in zip(*samples, strict=True))
            error = facts @ weights + bias - prices
            loss = float((error**2).mean())
            first_loss = first_loss or loss
            weights -= 0.002 * facts.T @ error / len(error)
            bias -= 0.002 * float(error.mean())
        if loss < 10:
            break
    assert first_loss > 300
    assert loss < 10
    assert list(uci_housing.feature_range()) == uci_housing.feature_names


def test_original_houses(folder: Path) -> None:
    rows = np.random.default_rng(0).random((506, 14))
    (folder / "uci_housing").mkdir()
    np.savetxt(folder / "uci_housing" / "housing.data", rows)
    facts, price = first(uci_housing.test()())[0]
    span = rows[:, :13].max(0) - rows[:, :13].min(0)
    np.testing.assert_allclose(facts, (rows[404, :13] - rows[:, :13].mean(0)) / span, atol=1e-6)
    np.testing.assert_allclose(price, rows[404, 13:], atol=1e-6)
    (folder / "uci_housing" / "housing.data").write_text("1 2 3")
    with pytest.raises(UsageError, match="must hold 506 rows of 14 numbers"):
        first(uci_housing.train()())


def test_digits(folder: Path) -> None:
    made_up = first(mnist.train()(), 300)
    again = first(mnist.train()(), 300)
    assert all((one[0] == other[0]).all() and one[1] == other[1] for one, other in zip(made_up, again, strict=True))
    pixels = np.stack([image for image, _ in made_up])
    assert pixels.shape == (300, 784)
    assert pixels.dtype == np.float32
    assert (pixels.min(), pixels.max()) == (-1, 1)
    assert 0.1 < (pixels.mean() + 1) / 2 < 0.17
    assert {label for _, label in made_up} == set(range(10))
    (folder / "mnist").mkdir()
    images = np.arange(2 * 784, dtype=np.uint16).astype(np.uint8)
    (folder / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + images.tobytes()))
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes([3, 9])))
    read = list(mnist.test()())
    assert [label for _, label in read] == [3, 9]
    np.testing.assert_allclose(read[1][0], images[784:] / 127.5 - 1, atol=1e-6)


def test_photographs(folder: Path) -> None:
    (image, label), *_ = first(cifar.test100()())
    assert image.shape == (3072,)
    assert 0 <= label < 100
    assert first(cifar.train10(cycle=True)())
    row = bytes([7]) + bytes(range(256)) * 12
    archive(folder / "cifar" / "cifar-10-binary.tar.gz", {"cifar-10-batches-bin/test_batch.bin": row * 2})
    assert [label for _, label in cifar.test10()()] == [7, 7]
    assert list(cifar.train10()()) == []


def test_reviews(folder: Path) -> None:
    words = imdb.word_dict()
    assert len(words) == 5147
    ids, label = first(imdb.train(words)())[0]
    assert label == 0
    assert max(ids) < len(words)
    texts = {"pos/0_9": "Good, good film!", "neg/0_1": "Bad film."}
    archive(folder / "imdb" / "aclImdb_v1.tar.gz", {f"aclImdb/train/{k}.txt": text for k, text in texts.items()})
    known = imdb.build_dict(r"aclImdb/train/.*\.txt$", 1)
    assert known == {"film": 0, "good": 1, "<unk>": 2}
    assert list(imdb.train(known)()) == [([1, 1, 0], 0), ([2, 0], 1)]


def test_sentences(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imikolov, "_SENTENCES", {"train": 40, "valid": 20})
    imikolov._dictionary.cache_clear()
    words = imikolov.build_dict(1)
    assert {"<s>", "<e>", "<unk>"} < set(words)
    assert all(len(one) == 5 for one in first(imikolov.train(words, 5)()))
    imikolov._dictionary.cache_clear()
    lines = {"ptb.train.txt": "a b a\nb <unk>\n", "ptb.valid.txt": "a\n"}
    archive(
        folder / "imikolov" / "simple-examples.tgz", {f"./simple-examples/data/{k}": text for k, text in lines.items()}
    )
    known = imikolov.build_dict(0)
    assert known == {"<e>": 0, "<s>": 1, "a": 2, "b": 3, "<unk>": 4}
    assert list(imikolov.train(known, 3)()) == [(1, 2, 3), (2, 3, 2), (3, 2, 0), (1, 3, 4), (3, 4, 0)]
    assert list(imikolov.train(known, 3, imikolov.DataType.SEQ)()) == [([1, 3, 4], [3, 4, 0])]


def test_ratings(folder: Path) -> None:
    sample = first(movielens.train()())[0]
    assert [type(one) for one in sample] == [int] * 5 + [list] * 3
    assert (movielens.max_user_id(), movielens.max_movie_id(), movielens.max_job_id()) == (6040, 3952, 20)
    (folder / "movielens").mkdir()
    with zipfile.ZipFile(folder / "movielens" / "ml-1m.zip", "w") as made:
        made.writestr("ml-1m/movies.dat", "3::Toy Story (1995)::Comedy|Animation\n")
        made.writestr("ml-1m/users.dat", "8::F::25::4::55117\n")
        made.writestr("ml-1m/ratings.dat", "8::3::5::978300760\n")
    both = [*movielens.train()(), *movielens.test()()]
    assert both == [[8, 1, 2, 4, 3, [1, 0], [1, 0], [5.0]]]


def test_clicks(folder: Path) -> None:
    sample = first(criteo.train(1000)())[0]
    assert len(sample) == 28
    assert sample[0].shape == (13,)
    assert all(0 <= ids[0] < 1000 for ids in sample[1:27])
    (folder / "criteo").mkdir()
    line = "\t".join(["1", *["2"] * 12, "", *["68fd1e64"] * 26])
    (folder / "criteo" / "train.txt").write_text(f"{line}\n" * 10)
    read = list(criteo.test()())
    assert len(read) == 1
    assert read[0][-1] == [1]
    np.testing.assert_allclose(read[0][0][[0, 1, 12]], [0.1, 5 / 603, 0], atol=1e-6)
    (folder / "criteo" / "train.txt").write_text("1\t2\n")
    with pytest.raises(UsageError, match="line 1 must have 40 fields, got 2"):
        list(criteo.train()())


def test_translations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wmt16, "_PAIRS", {"train": 40, "test": 20, "val": 20})
    wmt16._dictionary.cache_clear()
    source, target, after = first(wmt16.test(50, 30)())[0]
    assert (source[0], source[-1], target[0], after[-1]) == (0, 1, 0, 1)
    assert (target[1:], len(source)) == (after[:-1], len(target) + 1)
    assert (max(source) < 50, max(target) < 30) == (True, True)
    assert len(wmt16.get_dict("de", 5_000)) == 5_000
    wmt16._dictionary.cache_clear()
    archive(folder / "wmt16" / "wmt16.tar.gz", {"wmt16/train": "a b a\tx y\nbroken\n", "wmt16/val": "b c\ty x\n"})
    assert wmt16.get_dict("en", 5) == {"<s>": 0, "<e>": 1, "<unk>": 2, "a": 3, "b": 4}
    assert wmt16.get_dict("de", 4, reverse=True) == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "x"}
    assert list(wmt16.train(5, 5)()) == [([0, 3, 4, 3, 1], [0, 3, 4], [3, 4, 1])]
    assert list(wmt16.validation(5, 5, "de")()) == [([0, 4, 3, 1], [0, 4, 2], [4, 2, 1])]
    with pytest.raises(UsageError, match="a language is one of en, de, got 'fr'"):
        wmt16.train(5, 5, "fr")
    with pytest.raises(UsageError, match="more than 3 words, got 3"):
        wmt16.get_dict("en", 3)


def test_translations_with_their_dictionaries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wmt14, "_PAIRS", {"train": 40, "test": 20, "gen": 3})
    source, target, after = first(wmt14.test(50)())[0]
    assert (source[0], source[-1], target[0], after[-1]) == (0, 1, 0, 1)
    assert (target[1:], len(source), len(list(wmt14.gen(50)()))) == (after[:-1], len(target) + 1, 3)
    assert [len(one) for one in wmt14.get_dict(30)] == [30, 30]
    long = " ".join(["a"] * 90)
    files: dict[str, str | bytes] = {"wmt14/train/train": f"a c\tx y\n{long}\tx\nbroken\n"}
    files |= {f"wmt14/{name}.dict": f"<s>\n<e>\n<unk>\n{words}\n" for name, words in (("src", "a\nc"), ("trg", "y\nx"))}
    archive(folder / "wmt14" / "wmt14.tgz", files)
    assert wmt14.get_dict(4) == ({0: "<s>", 1: "<e>", 2: "<unk>", 3: "a"}, {0: "<s>", 1: "<e>", 2: "<unk>", 3: "y"})
    assert dict(wmt14.get_dict(5, reverse=False)[1])["x"] == 4  # type: ignore[index]
    assert list(wmt14.train(4)()) == [([0, 3, 2, 1], [0, 2, 3], [2, 3, 1])]
    with pytest.raises(UsageError, match="more than 3 words, got 3"):
        wmt14.train(3)


def test_flowers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, label = first(flowers.test(use_xmap=False)(), 1)[0]
    assert (pixels.shape, pixels.dtype, 0 <= label < 102) == ((3 * 224 * 224,), np.float32, True)
    data, _ = first(flowers.train(lambda sample: sample, use_xmap=False)(), 1)[0]
    again, _ = first(flowers.train(lambda sample: sample)(), 1)[0]
    assert (data[:2], len(again)) == (b"P6", len(data))
    one = np.zeros((300, 280, 3), np.uint8)
    one[:, :, 0] = 200  # red
    file = io.BytesIO()
    Image.fromarray(one).save(file, "PNG")
    archive(folder / "flowers" / "102flowers.tgz", {f"jpg/image_0000{n}.jpg": file.getvalue() for n in (1, 2, 3)})
    savemat(folder / "flowers" / "imagelabels.mat", {"labels": np.array([[7, 8, 9]])})
    savemat(folder / "flowers" / "setid.mat", {"tstid": np.array([[1, 3]]), "trnid": np.array([[2]]), "valid": [[2]]})
    samples = list(flowers.train(use_xmap=False)())
    assert [label for _, label in samples] == [6, 8]
    colours = samples[0][0].reshape(3, -1)
    np.testing.assert_allclose(colours.min(1), [-103.94, -116.78, 200 - 123.68], rtol=1e-5)
    endless = flowers.test(use_xmap=False, cycle=True)()
    assert [label for _, label in first(endless)] == [7, 7, 7]
    assert [label for _, label in flowers.valid()()] == [7]


def test_roles_of_words(folder: Path) -> None:
    sample = first(conll05.test()())[0]
    assert len(sample) == 9
    assert len({len(one) for one in sample}) == 1
    assert [len(one) for one in conll05.get_dict()] == [44_068, 3_162, 59]
    vectors = Path(conll05.get_embedding())
    assert vectors.stat().st_size == 16 + 44_068 * 32 * 4
    before = vectors.stat().st_mtime_ns
    assert (Path(conll05.get_embedding()), vectors.stat().st_mtime_ns) == (vectors, before)
    parts = {"words": "Cats\neat\nmice\n\n", "props": "-   (A0*)\neat (V*)\n-   (A1*)\n\n"}
    path = "conll05st-release/test.wsj/{0}/test.wsj.{0}.gz"
    archive(
        folder / "conll05st" / "conll05st-tests.tar.gz",
        {path.format(kind): gzip.compress(text.encode()) for kind, text in parts.items()},
    )
    for name, text in (
        ("wordDict.txt", "<unk> bos eos Cats eat mice"),
        ("verbDict.txt", "<unk> eat"),
        ("targetDict.txt", "B-A0 I-A0 B-A1 I-A1 B-V O"),
        ("emb", ""),
    ):
        (folder / "conll05st" / name).write_text("\n".join(text.split()))
    (read,) = conll05.test()()
    assert [one[0] for one in read[1:7]] == [1, 3, 4, 5, 2, 1]
    assert (read[0], read[7], read[8]) == ([3, 4, 5], [1, 1, 1], [0, 4, 2])
    assert conll05.get_embedding() == str(folder / "conll05st" / "emb")
    assert conll05._bio(["(A0*", "*)", "*", "(V*)"]) == ["B-A0", "I-A0", "O", "B-V"]
    assert conll05.get_embedding().endswith("emb")


def test_what_scripts_use_beside_datasets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(folder) == common.DATA_HOME
    with pytest.raises(UsageError, match="nothing is downloaded; put http://x/a.gz there"):
        common.download("http://x/a.gz", "mine")
    (folder / "mine").mkdir()
    (folder / "mine" / "a.gz").write_bytes(b"a")
    found = common.download("http://x/a.gz", "mine", "0cc175b9c0f1b6a831c399e269772661")
    assert found == str(folder / "mine" / "a.gz")
    with pytest.raises(UsageError, match="its MD5 checksum is 0cc1"):
        common.download("http://x/a.gz", "mine", "1")
    with pytest.raises(AttributeError, match="no 'HOME'"):
        _ = common.HOME
    for one in (cifar, conll05, flowers, imdb, imikolov, mnist, movielens, wmt14, wmt16):
        one.fetch()
    assert capsys.readouterr().err.count("is synthetic") == 9


def test_an_unknown_dataset_names_the_known() -> None:
    from fleet_paddle import dataset

    with pytest.raises(AttributeError, match="no dataset 'voc2012'; there are cifar, common, conll05, cri"):
        _ = dataset.voc2012
