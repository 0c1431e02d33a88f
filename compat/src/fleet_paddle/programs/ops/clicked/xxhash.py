"""xxHash, 64 bits: the hash of each row of a matrix of bytes, all rows at once. No operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(one)
    for one in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32
"""Bytes that the four lanes take at once."""


def xxh64(rows: npt.NDArray[np.uint8], seed: int = 0) -> Words:
    """One hash for each row of [rows, bytes].

    >>> [hex(one) for one in xxh64(np.frombuffer(b"abc", np.uint8).reshape(1, 3)).tolist()]
    ['0x44bc2cf5ad770999']
    """
    count, length = rows.shape
    begin, at = np.uint64(seed), 0
    with np.errstate(over="ignore"):
        if length >= _STRIPE:
            lanes = [np.full(count, start) for start in (begin + _P1 + _P2, begin + _P2, begin, begin - _P1)]
            while at + _STRIPE <= length:
                lanes = [_round(lane, _word(rows, at + 8 * i, 8)) for i, lane in enumerate(lanes)]
                at += _STRIPE
            found = _sum([_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)])
            for lane in lanes:
                found = (found ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
        else:
            found = np.full(count, begin + _P5)
        found = found + np.uint64(length)
        while at + 8 <= length:
            found = _turned(found ^ _round(np.zeros_like(found), _word(rows, at, 8)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            found = _turned(found ^ (_word(rows, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        for place in range(at, length):
            found = _turned(found ^ (rows[:, place].astype(np.uint64) * _P5), 11) * _P1
        found = (found ^ (found >> np.uint64(33))) * _P2
        found = (found ^ (found >> np.uint64(29))) * _P3
        return np.asarray(found ^ (found >> np.uint64(32)), np.uint64)


def _word(rows: npt.NDArray[np.uint8], at: int, size: int) -> Words:
    """A little-endian number of each row."""
    part = np.ascontiguousarray(rows[:, at : at + size])
    return part.view("<u8" if size == 8 else "<u4").reshape(-1).astype(np.uint64)


def _turned(value: Any, by: int) -> Words:
    return np.asarray((value << np.uint64(by)) | (value >> np.uint64(64 - by)), np.uint64)


def _round(lane: Words, word: Words) -> Words:
    return np.asarray(_turned(lane + word * _P2, 31) * _P1, np.uint64)


def _sum(several: list[Words]) -> Words:
    return several[0] + several[1] + several[2] + several[3]
