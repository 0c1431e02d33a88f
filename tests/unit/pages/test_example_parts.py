"""What the examples resnet50, transformer and bert are made of, one part at a time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from support.data.example_data import catalogue, modules_of

MESSAGES = {
    "": "Content-Type: text/plain; charset=UTF-8\n",
    "Cancel": "Abbrechen",
    "menu\x04Open\n  file": "Datei öffnen",
    "%d file\0%d files": "%d Datei\0%d Dateien",
    "OK": "OK",
}


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages_of_a_catalogue(tmp_path: Path, order: str) -> None:
    for language in ("de", "fr"):
        home = tmp_path / "share" / language / "LC_MESSAGES"
        home.mkdir(parents=True)
        (home / "one.mo").write_bytes(catalogue(MESSAGES if language == "de" else {"Cancel": "Annuler"}, order))
    with modules_of("transformer", "catalogues") as (catalogues,):
        found = catalogues.pairs_of(tmp_path, "de")
        assert found == [("%d file", "%d Datei"), ("Cancel", "Abbrechen"), ("Open file", "Datei öffnen")]
        assert catalogues.pairs_of(tmp_path / "share/fr/LC_MESSAGES", "de") == [("Cancel", "Annuler")]
        old = catalogue({"": "Content-Type: text/plain; charset=ISO-8859-1\n", "Big": "Groß"}, order, "latin-1")
        assert list(catalogues.messages_of(old, tmp_path)) == [("Big", "Groß")]
        with pytest.raises(UsageError, match=r"no translated messages \(.mo files\) for language 'it'"):
            catalogues.pairs_of(tmp_path, "it")


def test_a_damaged_catalogue_is_named(tmp_path: Path) -> None:
    whole = catalogue(MESSAGES)
    with modules_of("transformer", "catalogues") as (catalogues,):
        for length in range(len(whole) - len(b"Datei \xc3\xb6ffnen\0")):
            with pytest.raises(UsageError, match="bad.mo is"):
                list(catalogues.messages_of(whole[:length], tmp_path / "bad.mo"))


def test_flops_are_those_of_the_formula() -> None:
    with modules_of("bert", "train", "config", "common.peaks") as (train, config, peaks):
        for name in ("tiny", "base"):
            one = config.PRESETS[name]
            shapes = [(3, one.length), (3, one.num_masked), (3, one.num_masked)]
            counted = peaks.Cost(lambda one=one: train.Bert(one))(*(torch.zeros(s, dtype=torch.int64) for s in shapes))
            layers = one.num_layers * one.length * (12 * one.width**2 + 2 * one.length * one.width)
            guesses = one.num_masked * (one.width**2 + one.width * one.vocabulary)
            assert counted == 6 * 3 * (layers + guesses)


def test_resnet50_is_the_one_of_the_paper() -> None:
    with modules_of("resnet50", "train", "config") as (train, config), torch.device("meta"):
        net = train.ResNet(config.PRESETS["base"], 1000)
    assert sum(one.numel() for one in net.parameters()) == 25_557_032


def test_peaks_of_cards_by_name() -> None:
    with modules_of("bert", "common.peaks") as (peaks,):
        assert peaks.peak_of("NVIDIA H200") == peaks.peak_of("NVIDIA H100 80GB HBM3") == 989e12
        assert peaks.peak_of("NVIDIA A100-SXM4-80GB") == 312e12
        assert peaks.peak_of("NVIDIA H20") is None  # not a part of H200's name
        assert peaks.peak_of("NVIDIA L4") == 121e12
        assert peaks.peak_flops(None, torch.device("cpu")) is None
        assert peaks.peak_flops(2.5, torch.device("cpu")) == 2.5e12


def test_masks_hide_as_many_tokens_and_never_the_borders() -> None:
    with modules_of("bert", "text", "config") as (text, config):
        one = config.PRESETS["base"]
        tokens, numbers = text.counting(200, one), torch.arange(200)
        hidden, places, targets = text.masked((tokens, numbers), one, seed=5)
        assert places.shape == (200, one.num_masked)
        assert all(len(set(row)) == one.num_masked for row in places.tolist())
        assert torch.equal(tokens.gather(1, places), targets)
        assert not torch.isin(targets, torch.tensor([text.CLS, text.SEP])).any()
        found = hidden.gather(1, places)
        shares = [(found == text.MASK).float().mean().item(), (found == targets).float().mean().item()]
        assert shares == pytest.approx([0.8, 0.1], abs=0.02)
        untouched = torch.ones_like(tokens, dtype=torch.bool).scatter(1, places, value=False)
        assert torch.equal(hidden[untouched], tokens[untouched])
        again = text.masked((tokens[50:60], numbers[50:60]), one, seed=5)  # whoever holds these rows hides the same
        assert torch.equal(again[0], hidden[50:60])
        assert not torch.equal(text.masked((tokens, numbers), one, seed=6)[1], places)
        counts = torch.bincount(places.flatten(), minlength=one.length)[1:-1].float()
        assert counts.std() < 2 * counts.mean().sqrt()


def test_an_image_is_cut_inside_its_borders() -> None:
    with modules_of("resnet50", "pipeline") as (images,):
        random = np.random.default_rng(0)
        for width, height in itertools.product((40, 333, 2000), repeat=2):
            for _ in range(50):
                left, upper, right, lower = images.part_of(width, height, random)
                assert 0 <= left < right <= width
                assert 0 <= upper < lower <= height


def test_a_large_image_is_decoded_small_and_looks_the_same(tmp_path: Path) -> None:
    from PIL import Image

    wave = np.sin(np.arange(800) / 40)
    pixels = (127 + 60 * (wave[:, None, None] + wave[:, None] * np.array([1.0, 0.5, 0.0]))).clip(0, 255)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "a" / "one.jpg", quality=95)
    Image.fromarray(pixels[..., 0].astype(np.uint8)).save(tmp_path / "a" / "two.jpg", quality=95)  # grey
    with modules_of("resnet50", "pipeline") as (images,):
        data = images.Images(tmp_path, 64, augments=False)
        batch, classes = data.__getitems__([0, 1])
        assert batch.shape == (2, 64, 64, 3)
        assert classes.tolist() == [0, 0]
        whole = Image.open(tmp_path / "a" / "one.jpg").resize(
            (64, 64), Image.Resampling.BILINEAR, box=images.middle(800, 800)
        )
        difference = batch[0].float() - torch.tensor(np.array(whole)).float()
        assert difference.abs().mean() < 2
        assert torch.equal(batch[1][..., 0], batch[1][..., 2])
        random = images.Images(tmp_path, 64, augments=True, seed=1)
        first = random.__getitems__([0])[0]
        assert torch.equal(random.__getitems__([1, 0])[0][1:], first)  # whatever batch it is in
        random.set_epoch(1)
        assert not torch.equal(random.__getitems__([0])[0], first)
        (tmp_path / "a" / "one.jpg").write_bytes(b"\xff\xd8 nothing")
        with pytest.raises(UsageError, match="one.jpg cannot be decoded"):
            data.__getitems__([0])


def test_a_beam_finds_a_sentence_that_is_at_least_as_likely() -> None:
    with modules_of("transformer", "model", "decode", "text", "config") as (model, decode, text, config):
        torch.manual_seed(1)
        net = model.Transformer(config.PRESETS["tiny"]).eval()
        source = torch.randint(text.END + 1, 80, (6, 9))
        source[:, -1], source[3, 5:] = text.END, text.PAD
        source[3, 4] = text.END

        def chance(row: int, tokens: list[int]) -> float:
            before = torch.tensor([[text.BEGIN, *tokens]])
            after = torch.tensor([*tokens, text.END])
            with torch.no_grad():
                scores = net(source[row : row + 1], before, before)[0]
            scores[:, [text.PAD, text.BEGIN]] = -torch.inf
            each = scores.log_softmax(-1)[torch.arange(len(after)), after]
            return float(each[: len(tokens) + (len(tokens) < 7)].sum())  # no END if there was no room for one

        greedy = decode.translate(net, source, longest=8)
        beam = decode.translate(net, source, longest=8, beam=40, alpha=0.0)
        alone = decode.translate(net, source[3:4, :5], longest=8)
        assert alone[0] == greedy[3]  # padding changes nothing
        assert all(chance(row, beam[row]) >= chance(row, greedy[row]) - 1e-4 for row in range(6))
        first = net(source, torch.full((6, 1), text.BEGIN), source).detach()[:, 0]
        first[:, [text.PAD, text.BEGIN]] = -torch.inf
        best = first.argmax(-1).tolist()
        assert [tokens[:1] for tokens in greedy] == [[one] if one > text.END else [] for one in best]
