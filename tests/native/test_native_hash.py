"""The hash of texts: its values for ever, against its definition in Python, and how well it spreads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

A, B, C, D, E = 0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1, 0x510E527FADE682D1
ONES = 2**64 - 1


def fold(a: int, b: int) -> int:
    return (a * b & ONES) ^ (a * b >> 64)


def hash64(h: int, text: bytes) -> int:
    """The definition in csrc/data/hash_text.h, word for word."""
    for at in range(0, len(text), 16):
        block = text[at : at + 16].ljust(16, b"\0")
        x, y = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        h = fold(x ^ h ^ A, y ^ (h << 32 & ONES | h >> 32) ^ B)
    return fold(h ^ C, len(text) + D)


def ids(slot: str, texts: list[bytes], dtype: type = np.int64) -> npt.NDArray[np.int64]:
    offsets: npt.NDArray[np.int64] = np.cumsum([0, *map(len, texts)]).astype(dtype)
    return _native.hash_text(_native.slot_seed(slot), np.frombuffer(b"".join(texts), np.uint8), offsets)


GOLDEN = {
    ("", b""): 8951299199209594485,
    ("user", b""): 1704935486038076716,
    ("user", b"17"): 6017923348338170556,
    ("item", b"17"): 2772180958363311732,
    ("C1", b"68fd1e64"): 8233800313828729617,
    ("C26", b"68fd1e64"): 8148951148521040489,
    ("url", b"https://example.org/a/long/path?with=a&query"): 2143340750323020636,
    ("\u5546\u54c1", "\u7ea2\u8272".encode()): 799147831936144594,
}


@pytest.mark.parametrize(("slot", "text"), GOLDEN)
def test_ids_never_change(slot: str, text: bytes) -> None:
    assert ids(slot, [text]).tolist() == [GOLDEN[slot, text]]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20), st.lists(st.binary(max_size=50), max_size=5), st.sampled_from([np.int32, np.int64]))
def test_ids_are_as_defined(slot: str, texts: list[bytes], dtype: type) -> None:
    seed = hash64(E, slot.encode())
    assert _native.slot_seed(slot) == seed
    assert ids(slot, texts, dtype).tolist() == [hash64(seed, text) >> 1 for text in texts]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(0, 2**64 - 1)))
def test_integers_have_the_ids_of_their_text(numbers: list[int], unsigned: list[int]) -> None:
    seed = _native.slot_seed("n")
    made = _native.hash_numbers(seed, np.array(numbers, dtype=np.int64))
    assert made.tolist() == ids("n", [b"%d" % one for one in numbers]).tolist()
    made = _native.hash_numbers(seed, np.array(unsigned, dtype=np.uint64))
    assert made.tolist() == ids("n", [b"%d" % one for one in unsigned]).tolist()


def test_a_million_texts_do_not_collide_and_fill_every_part() -> None:
    million, few = 1_000_000, 200_000
    text = np.frombuffer(b"".join(b"%08x" % number for number in range(few)), np.uint8)
    for made in (
        _native.hash_numbers(_native.slot_seed("user"), np.arange(million)),
        _native.hash_text(_native.slot_seed("C1"), text, np.arange(0, len(text) + 1, 8)),
    ):
        ordered = np.sort(made)
        assert ordered[0] >= 0
        assert (ordered[1:] > ordered[:-1]).all()
        for shift in (0, 24, 51):  # the lowest, middle and highest 12 bits: chi-squared within five deviations
            counts = np.bincount(made >> shift & 0xFFF, minlength=1 << 12)
            mean = len(made) / (1 << 12)
            deviation = (((counts - mean) ** 2 / mean).sum() - (1 << 12)) / np.sqrt(2 * (1 << 12))
            assert abs(deviation) < 5


@pytest.mark.parametrize("size", [4, 8, 12, 16, 23])
def test_every_bit_of_a_text_turns_half_of_the_ids_bits(size: int) -> None:
    rng, num = np.random.default_rng(size), 400
    turned = np.zeros((8 * size, 63))
    for _ in range(num):
        text = rng.integers(48, 123, size, dtype=np.uint8)
        flipped = np.repeat(text[None], 8 * size, axis=0)
        flipped[np.arange(8 * size), np.arange(8 * size) // 8] ^= (1 << np.arange(8 * size) % 8).astype(np.uint8)
        made = ids("slot", [text.tobytes(), *(row.tobytes() for row in flipped)])
        turned += (made[1:] ^ made[0])[:, None] >> np.arange(63) & 1
    share = turned / num
    assert abs(share.mean() - 0.5) < 0.005
    assert share.min() > 0.36
    assert share.max() < 0.64


def test_slots_keep_the_same_texts_apart() -> None:
    made = np.concatenate(
        [_native.hash_numbers(_native.slot_seed(f"C{slot}"), np.arange(10_000)) for slot in range(40)]
    )
    assert len(np.unique(made)) == 400_000


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [2, 1], [3, 4]])
def test_offsets_that_lie_outside_are_refused(offsets: list[int]) -> None:
    for given_ in (np.array(offsets, dtype=np.int32), np.array(offsets, dtype=np.int64)):
        with pytest.raises(ValueError, match="offsets must ascend within text, which has 3 bytes"):
            _native.hash_text(0, np.zeros(3, np.uint8), given_)


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="offsets must be int32 or int64, got float64"):
        _native.hash_text(0, np.zeros(3, np.uint8), np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text must be uint8, got int8"):
        _native.hash_text(0, np.zeros(3, np.int8), np.zeros(2, np.int64))
    with pytest.raises(TypeError, match="numbers must be int64 or uint64, got int32"):
        _native.hash_numbers(0, np.zeros(3, np.int32))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offsets must have 1 dimension and at least 1 element"):
        _native.hash_text(0, np.zeros(3, np.uint8), np.zeros(0, np.int64))
