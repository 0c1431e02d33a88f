"""Entry policies: when a key deserves a row of its own.

Pushes count a key that has no row yet and drop its gradients. Admitted, it starts from the table's initialiser.

>>> str(CountFilterEntry(5))
'count_filter(count=5)'
"""

from __future__ import annotations

# ruff: noqa: N802  (the names that users of Fleet know)
from fleet.errors import UsageError
from fleet.ps.job.checks import checked, says_what_was_meant
from fleet.ps.job.named_spec import EntrySpec
from fleet.strategy.check import Finite, Text, Whole

NOT_NEGATIVE = Finite(least=0)


@says_what_was_meant
def AlwaysEntry() -> EntrySpec:
    """Every key has a row from its first push."""
    return EntrySpec("always")


@says_what_was_meant
def CountFilterEntry(count: int) -> EntrySpec:
    """A key has a row once it has been pushed `count` times; 0 and 1 admit every key."""
    return EntrySpec("count_filter", (("count", checked("CountFilterEntry", "count", count, Whole(least=0))),))


@says_what_was_meant
def ProbabilityEntry(probability: float) -> EntrySpec:
    """Each step that pushes a key without a row gives it one with this probability, strictly between 0 and 1."""
    value = checked("ProbabilityEntry", "probability", probability, Finite(above=0, below=1))
    return EntrySpec("probability", (("probability", value),))


@says_what_was_meant
def ShowClickEntry(
    show_name: str = "show",
    click_name: str = "click",
    threshold: float = 10.0,
    nonclk_coeff: float = 0.1,
    click_coeff: float = 1.0,
) -> EntrySpec:
    """A key has a row once (shows - clicks) * nonclk_coeff + clicks * click_coeff reaches `threshold`.

    `show_name` and `click_name` are the inputs of a batch that hold both counts; they become the entry's `inputs`.
    """
    names = [
        checked("ShowClickEntry", name, value, Text())
        for name, value in (("show_name", show_name), ("click_name", click_name))
    ]
    if not all(names) or names[0] == names[1]:
        raise UsageError(
            f"ShowClickEntry: show_name and click_name must name two inputs, got {names[0]!r}, {names[1]!r}"
        )
    numbers = (("threshold", threshold), ("nonclk_coeff", nonclk_coeff), ("click_coeff", click_coeff))
    args = tuple((name, checked("ShowClickEntry", name, value, NOT_NEGATIVE)) for name, value in numbers)
    return EntrySpec("show_click", args, tuple(names))
