"""`paddle.text`: the datasets of `paddle.dataset` that are text or numbers, with a length and samples by their place.

Files that are given are looked at by PaddlePaddle; here originals are read from FLEET_DATA_HOME, and samples are made
up where they are missing, as for `paddle.dataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from torch.utils import data

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.dataset import conll05, imdb, imikolov, movielens, uci_housing, wmt14, wmt16

__all__ = ["WMT14", "WMT16", "Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing"]

Reader = Callable[[], Iterator[Any]]


class _Text(data.Dataset[Any]):
    """Samples of a reader, kept in memory."""

    modes: ClassVar[tuple[str, ...]] = ("train", "test")
    data: list[Any]

    def _begin(self, mode: str, *given: Any) -> str:
        kind = type(self).__name__
        if mode.lower() not in self.modes:
            raise UsageError(f"{kind}: mode must be one of {', '.join(self.modes)}, got {mode!r}")
        if any(one is not None for one in given):
            raise NotSupportedError(f"{kind}: files are not given one by one; put them below FLEET_DATA_HOME")
        self.mode = mode.lower()
        return self.mode

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int) -> Any:
        return tuple(np.array(field) for field in self.data[place])


class UCIHousing(_Text):
    """Prices of houses: 13 facts and a price, as floats."""

    def __init__(self, data_file: str | None = None, mode: str = "train", download: bool = True) -> None:  # noqa: ARG002
        reader = uci_housing.train if self._begin(mode, data_file) == "train" else uci_housing.test
        self.data = list(reader()())


class Imdb(_Text):
    """Opinions about films: the numbers of the words, and [0] for good or [1] for bad ones."""

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        cutoff: int = 150,
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        self._begin(mode, data_file)
        self.word_idx = imdb.build_dict("aclImdb/((train)|(test))/((pos)|(neg))/.*\\.txt$", cutoff)
        reader = imdb.train if self.mode == "train" else imdb.test
        self.data = [(words, [label]) for words, label in reader(self.word_idx)()]


class Imikolov(_Text):
    """Sentences of a newspaper: runs of `window_size` words, or whole sentences and the same one word later."""

    def __init__(
        self,
        data_file: str | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        self._begin(mode, data_file)
        kind = data_type.upper()
        if kind not in ("NGRAM", "SEQ"):
            raise UsageError(f"Imikolov: data_type must be 'NGRAM' or 'SEQ', got {data_type!r}")
        self.data_type, self.window_size, self.min_word_freq = kind, window_size, min_word_freq
        self.word_idx = imikolov.build_dict(min_word_freq)
        reader = imikolov.train if self.mode == "train" else imikolov.test
        self.data = list(reader(self.word_idx, window_size, getattr(imikolov.DataType, kind))())


class Movielens(_Text):
    """Ratings of films: user, gender, age group, job, film, categories, words of the title, rating, each an array.

    The first of `test_ratio` is for testing, by chance; of made-up ratings the first 50 000 are kept.
    """

    KEPT: ClassVar[int] = 50_000

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        self._begin(mode, data_file)
        if test_ratio != 0.1 or rand_seed != 0:
            raise NotSupportedError("Movielens: test_ratio and rand_seed must be left out; a tenth is for testing")
        reader = movielens.train if self.mode == "train" else movielens.test
        self.data = list(islice(reader()(), self.KEPT))

    def __getitem__(self, place: int) -> Any:
        return tuple(np.array(field if isinstance(field, list) else [field]) for field in self.data[place])


class Conll05st(_Text):
    """Sentences whose words have roles beside a verb: nine arrays as long as the sentence."""

    def __init__(
        self,
        data_file: str | None = None,
        word_dict_file: str | None = None,
        verb_dict_file: str | None = None,
        target_dict_file: str | None = None,
        emb_file: str | None = None,
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        self._begin("test", data_file, word_dict_file, verb_dict_file, target_dict_file, emb_file)
        self.data = list(conll05.test()())

    def get_dict(self) -> Any:
        """The numbers of words, verbs and marks."""
        return conll05.get_dict()

    def get_embedding(self) -> str:
        """The path of a table of word vectors."""
        return conll05.get_embedding()


class WMT14(_Text):
    """Sentences in English and French: the source, the target after `<s>`, the target before `<e>`."""

    modes = ("train", "test", "gen")

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        dict_size: int = -1,
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        if dict_size <= 0:
            raise UsageError(f"WMT14: dict_size must be how many words a dictionary has, got {dict_size}")
        self._begin(mode, data_file)
        self.dict_size = dict_size
        self.data = list(getattr(wmt14, self.mode)(dict_size)())

    def get_dict(self, reverse: bool = False) -> Any:
        """The numbers of English and of French words; with `reverse` the words of the numbers."""
        return wmt14.get_dict(self.dict_size, reverse)


class WMT16(_Text):
    """Sentences in English and German: the source, the target after `<s>`, the target before `<e>`."""

    modes = ("train", "test", "val")

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,  # noqa: ARG002 - nothing is
    ) -> None:
        if src_dict_size <= 0 or trg_dict_size <= 0:
            raise UsageError(f"WMT16: dict sizes must be > 0, got {src_dict_size} and {trg_dict_size}")
        self._begin(mode, data_file)
        self.lang, self._sizes = lang, {"en": src_dict_size, "de": trg_dict_size}
        if lang == "de":
            self._sizes = {"de": src_dict_size, "en": trg_dict_size}
        reader = wmt16.validation if self.mode == "val" else getattr(wmt16, self.mode)
        self.data = list(reader(src_dict_size, trg_dict_size, lang)())

    def get_dict(self, lang: str, reverse: bool = False) -> Any:
        """The numbers of the words of a language; with `reverse` the words of the numbers."""
        if lang not in self._sizes:
            raise UsageError(f"WMT16: a language is 'en' or 'de', got {lang!r}")
        return wmt16.get_dict(lang, self._sizes[lang], reverse)
