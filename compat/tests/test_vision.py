"""`paddle.vision` and `paddle.text`: changes of images against numpy, sizes of networks, datasets."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.dataset import cifar, images, mnist
from fleet_paddle.vision.transforms.base import BaseTransform

paddle: Any = import_module("paddle")
T = paddle.vision.transforms

Image = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
PICTURE = Image.fromarray(PIXELS)


@pytest.mark.parametrize("given", [PIXELS, PICTURE])
def test_tensors_and_norms(given: Any) -> None:
    made = T.ToTensor()(given)
    assert isinstance(made, paddle.Tensor)
    assert np.allclose(made.numpy(), PIXELS.transpose(2, 0, 1) / np.float32(255))
    chain = T.Compose([T.Transpose(), T.Normalize(mean=[127.5] * 3, std=[127.5, 10, 1])])
    expected = (PIXELS.transpose(2, 0, 1) - 127.5) / np.array([127.5, 10, 1]).reshape(3, 1, 1)
    assert np.allclose(chain(given), expected, atol=1e-5)
    assert chain(given).dtype == np.float32
    assert np.allclose(T.Normalize([0.5], [0.5])(torch.ones(1, 2, 2)).numpy(), 1.0)


@pytest.mark.parametrize("given", [PIXELS, PICTURE])
def test_parts_mirrors_and_rims(given: Any) -> None:
    assert np.array_equal(np.asarray(T.functional.crop(given, 1, 2, 3, 4)), PIXELS[1:4, 2:6])
    assert np.array_equal(np.asarray(T.CenterCrop((2, 4))(given)), PIXELS[2:4, 2:6])
    assert np.array_equal(np.asarray(T.RandomHorizontalFlip(1.0)(given)), PIXELS[:, ::-1])
    assert np.array_equal(np.asarray(T.RandomVerticalFlip(1.0)(given)), PIXELS[::-1])
    assert np.array_equal(np.asarray(T.RandomVerticalFlip(0.0)(given)), PIXELS)
    rim = np.pad(PIXELS, ((2, 4), (1, 3), (0, 0)), constant_values=7)
    assert np.array_equal(np.asarray(T.Pad([1, 2, 3, 4], fill=7)(given)), rim)
    random.seed(3)
    part = np.asarray(T.RandomCrop(4)(given))
    places = [(top, left) for top in range(3) for left in range(5)]
    assert any(np.array_equal(part, PIXELS[top : top + 4, left : left + 4]) for top, left in places)
    with pytest.raises(UsageError, match=r"size \(9, 9\) does not fit into 6 x 8"):
        T.RandomCrop(9)(given)
    assert np.asarray(T.RandomCrop(9, pad_if_needed=True)(given)).shape == (9, 9, 3)


@pytest.mark.parametrize("given", [PIXELS, PICTURE])
def test_sizes_turns_and_colours(given: Any) -> None:
    assert np.asarray(T.Resize(3)(given)).shape == (3, 4, 3)
    assert np.asarray(T.Resize((5, 7))(given)).shape == (5, 7, 3)
    assert np.asarray(T.RandomResizedCrop(4)(given)).shape == (4, 4, 3)
    assert np.array_equal(np.asarray(T.RandomRotation((180, 180))(given)), PIXELS[::-1, ::-1])
    grey = PIXELS.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    assert np.abs(np.asarray(T.Grayscale()(given)).reshape(6, 8) - grey).max() <= 1
    assert np.asarray(T.Grayscale(3)(given)).shape == (6, 8, 3)
    assert np.array_equal(np.asarray(T.functional.adjust_brightness(given, 0.0)), np.zeros_like(PIXELS))
    for one in (T.functional.adjust_contrast, T.functional.adjust_saturation):
        assert np.abs(np.asarray(one(given, 1.0)).astype(int) - PIXELS).max() <= 1
    assert np.asarray(T.ColorJitter(0.4, 0.4, 0.4, 0.4)(given)).shape == (6, 8, 3)
    assert np.ptp(np.asarray(T.functional.adjust_saturation(given, 0.0)), axis=2).max() <= 1


def test_keys_say_what_is_changed() -> None:
    image, label = T.Resize((2, 2), keys=("image", "label"))((PIXELS, 5))
    assert image.shape == (2, 2, 3)
    assert label == 5

    class Brighter(BaseTransform):
        def _apply_image(self, image: Any) -> Any:
            return image + 1

    assert Brighter()(np.zeros(2)).tolist() == [1, 1]


def _parameters(net: Any) -> int:
    return sum(one.numel() for one in net.parameters())


def test_networks_have_the_sizes_of_their_papers() -> None:
    models = paddle.vision.models
    expected = {"resnet18": 11_689_512, "resnet50": 25_557_032, "mobilenet_v2": 3_504_872}
    for name, count in expected.items():
        assert _parameters(getattr(models, name)()) == count, name
    with torch.device("meta"):
        assert _parameters(models.mobilenet_v1(num_classes=10)) > 3_000_000
    net = models.resnet18(num_classes=4)
    assert net(paddle.randn([2, 3, 32, 32])).shape == [2, 4]
    assert models.mobilenet_v1(scale=0.25, num_classes=0)(paddle.randn([1, 3, 32, 32])).shape == [1, 256, 1, 1]
    with pytest.raises(NotSupportedError, match="pretrained weights are not downloaded"):
        models.LeNet and models.resnet18(pretrained=True)


def test_small_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    few = lambda *args: images.blocks(args[0], 40, *args[2:])  # noqa: E731
    monkeypatch.setattr(mnist, "blocks", few)
    monkeypatch.setattr(cifar, "blocks", few)
    digits = paddle.vision.datasets.MNIST(mode="test", transform=T.Compose([T.ToTensor()]))
    assert len(digits) == 40
    image, label = digits[3]
    assert image.shape == [1, 28, 28]
    assert label.shape == (1,)
    assert label.dtype == np.int64
    assert paddle.vision.datasets.FashionMNIST(mode="test")[3][0].size == (28, 28)
    image, label = paddle.vision.datasets.Cifar10(mode="train", backend="cv2")[0]
    assert image.shape == (32, 32, 3)
    assert image.dtype == np.float32
    assert label.shape == ()
    x, y = next(iter(paddle.io.DataLoader(digits, batch_size=8)))
    assert x.shape == [8, 1, 28, 28]
    assert y.shape == [8, 1]
    with pytest.raises(UsageError, match="mode must be one of train, test, got 'dev'"):
        paddle.vision.datasets.MNIST(mode="dev")


def test_folders_of_images(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        PICTURE.save(tmp_path / name / "one.png")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    folder = paddle.vision.datasets.DatasetFolder(str(tmp_path), transform=T.ToTensor())
    assert folder.classes == ["a", "b"]
    assert [label for _, label in folder] == [0, 1]
    assert np.allclose(folder[1][0].numpy() * 255, PIXELS.transpose(2, 0, 1), atol=1e-3)
    flat = paddle.vision.datasets.ImageFolder(str(tmp_path))
    assert [np.array_equal(np.asarray(image), PIXELS) for (image,) in flat] == [True, True]
    assert np.array_equal(paddle.vision.image_load(str(tmp_path / "a" / "one.png"), "cv2"), PIXELS[:, :, ::-1])


def test_text() -> None:
    housing = paddle.text.datasets.UCIHousing(mode="test")
    assert len(housing) == 102
    assert [field.shape for field in housing[0]] == [(13,), (1,)]
    roles = paddle.text.Conll05st()
    assert len(roles[0]) == 9
    pairs = paddle.text.WMT16(mode="val", src_dict_size=50, trg_dict_size=60)
    source, after, before = pairs[0]
    assert source[0] == after[0] == 0
    assert before[-1] == 1
    assert np.array_equal(after[1:], before[:-1])
    assert len(pairs.get_dict("de")) == 60
    french = paddle.text.WMT14(mode="gen", dict_size=100)
    assert max(french[0][0]) < 100
    assert french.get_dict(reverse=True)[0][0] == "<s>"
    with pytest.raises(NotSupportedError, match="put them below FLEET_DATA_HOME"):
        paddle.text.UCIHousing("housing.data")
