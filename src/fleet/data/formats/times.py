"""Texts as times, many at once: ISO 8601, or numbers since 1970."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_MOST = 40  # characters of a time
_ROWS = 1 << 16  # at once: so many matrices of characters fit a core's cache
_LAST_MICROS = 253_402_300_800e6  # the year 10,000: what lies behind it was counted in other units
_ZERO, _NINE = ord("0"), ord("9")


def times_of(texts: Array, micros: float) -> tuple[Array, Array]:
    """datetime64[us] in UTC of each text, NaT for an empty one, and which are none.

    A date, with T or a space before the time of the day where there is one, seconds and a fraction of them where there
    are some, and Z or an offset from UTC; without one it is taken as UTC. A number counts units of `micros`.
    """
    times = np.full(len(texts), np.datetime64("NaT"), dtype="M8[us]")
    wrong = np.zeros(len(texts), dtype=np.bool_)
    for first in range(0, len(texts), _ROWS):
        part = slice(first, first + _ROWS)
        times[part], wrong[part] = _times(texts[part], micros)
    return times, wrong


def of_numbers(numbers: Array, micros: float) -> tuple[Array, Array]:
    """The same of numbers since 1970, NaN for gaps; integers keep every digit."""
    gaps = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), dtype=np.bool_)
    wrong = ~gaps & ~(np.abs(np.where(gaps, 0, numbers) * float(micros)) < _LAST_MICROS)
    plain = np.where(gaps | wrong, 0, numbers)
    if numbers.dtype.kind == "f":
        made = np.rint(plain * micros).astype(np.int64)
    else:
        made = plain.astype(np.int64) * int(micros) if micros >= 1 else plain.astype(np.int64) // round(1 / micros)
    times = made.astype("M8[us]")
    times[gaps | wrong] = np.datetime64("NaT")
    return times, wrong


def _times(texts: Array, micros: float) -> tuple[Array, Array]:
    fixed = np.char.strip(texts.astype(f"U{_MOST + 1}")).astype(f"U{_MOST + 1}")
    codes = np.ascontiguousarray(fixed).view(np.uint32).reshape(len(texts), _MOST + 1).astype(np.int32)
    length = (codes != 0).sum(1)
    is_digit = (codes >= _ZERO) & (codes <= _NINE)
    times, is_time = _iso(codes, is_digit, length)
    signed = np.isin(codes[:, 0], (ord("+"), ord("-")))
    dots = codes == ord(".")
    digits = is_digit.sum(1)
    is_number = (digits > 0) & (digits + dots.sum(1) + signed == length) & (dots.sum(1) <= 1) & (length <= _MOST)
    is_whole = is_number & ~dots.any(1) & (digits <= 18)
    for chosen, dtype in ((is_whole, np.int64), (is_number & ~is_whole, np.float64)):
        if chosen.any():
            times[chosen], beyond = of_numbers(fixed[chosen].astype(dtype), micros)
            is_number[np.flatnonzero(chosen)[beyond]] = False
    is_gap = length == 0
    wrong = ~(is_time | is_number | is_gap)
    times[wrong | is_gap] = np.datetime64("NaT")
    return times, wrong


def _iso(codes: Array, is_digit: Array, length: Array) -> tuple[Array, Array]:
    num = len(codes)
    rows, places = np.arange(num), np.arange(_MOST + 1)

    def number(*at: int) -> Array:
        """The digits at some places; what is none makes a wrong number, of a row that is wrong anyway."""
        found = np.zeros(num, dtype=np.int64)
        for place in at:
            found = found * 10 + codes[:, place] - _ZERO
        return found

    is_zone = np.isin(codes, [ord(one) for one in "Zz+-"]) & (places >= 16)
    end = np.where(is_zone.any(1), is_zone.argmax(1), length)  # of the local time
    is_right = is_digit[:, [0, 1, 2, 3, 5, 6, 8, 9]].all(1) & (codes[:, [4, 7]] == ord("-")).all(1)
    has_time, has_seconds, has_fraction = end > 10, end > 16, end > 19
    is_clock = np.isin(codes[:, 10], [ord(one) for one in "Tt "]) & is_digit[:, [11, 12, 14, 15]].all(1)
    is_right &= ~has_time | (is_clock & (codes[:, 13] == ord(":")) & (end >= 16))
    is_right &= ~has_seconds | ((codes[:, 16] == ord(":")) & is_digit[:, [17, 18]].all(1) & (end >= 19))
    inside = (places > 19) & (places < end[:, None])
    is_fraction = np.isin(codes[:, 19], [ord(one) for one in ".,"]) & (end > 20) & (is_digit | ~inside).all(1)
    is_right &= ~has_fraction | is_fraction
    is_right &= (length <= _MOST) & (end >= 10) & (has_time | (end == length))

    month, day = number(5, 6), number(8, 9)
    months = (np.where(is_right, number(0, 1, 2, 3) - 1970, 0) * 12 + np.where(is_right, month - 1, 0)).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(is_right, day - 1, 0)
    is_right &= (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("M8[M]") == months)
    hours, minutes = np.where(has_time, number(11, 12), 0), np.where(has_time, number(14, 15), 0)
    seconds = np.where(has_seconds, number(17, 18), 0)
    is_right &= (hours < 24) & (minutes < 60) & (seconds < 60)
    fraction = np.where(inside & has_fraction[:, None], codes - _ZERO, 0)[:, 20:26] @ (10 ** np.arange(5, -1, -1))

    tail = length - end

    def behind(place: int) -> Array:
        found: Array = codes[rows, np.minimum(end + place, _MOST)] - _ZERO
        return found

    colon = tail == 6
    zone = np.stack(
        [behind(1), behind(2), np.where(colon, behind(4), behind(3)), np.where(colon, behind(5), behind(4))]
    )
    zone[2:, tail == 3] = 0
    mark = behind(0) + _ZERO
    is_named = (mark | 32) == ord("z")
    is_offset = ((tail == 3) | (tail == 5) | (colon & (behind(3) == ord(":") - _ZERO))) & (
        (zone >= 0) & (zone <= 9)
    ).all(0)
    is_right &= (tail == 0) | np.where(is_named, tail == 1, is_offset)
    offset = np.where((tail > 0) & ~is_named, zone[0] * 600 + zone[1] * 60 + zone[2] * 10 + zone[3], 0)
    offset = np.where(mark == ord("-"), -offset, offset)
    micros = ((hours * 60 + minutes - offset) * 60 + seconds) * 1_000_000 + fraction
    times = np.where(is_right, days, np.datetime64("NaT")).astype("M8[us]") + np.where(is_right, micros, 0)
    return times, is_right
