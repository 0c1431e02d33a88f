"""A length of time in words, as short as a reader needs it."""


def in_words(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 12 min`.

    >>> [in_words(value) for value in (0.44, 59.7, 3599.7, 18_720)]
    ['0.4 s', '1 min 0 s', '1 h 0 min', '5 h 12 min']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"
