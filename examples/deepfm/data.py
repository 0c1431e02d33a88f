"""Makes up clicks for train.py: `python data.py` writes train.tsv and test.tsv."""

import random
from pathlib import Path

random.seed(0)
TASTE = [[random.gauss(0, 1) for _ in range(200)] for _ in range(8)]


def line() -> str:
    """A click, or none: mostly a matter of the categories."""
    numbers = [random.gauss(0, 1) for _ in range(4)]
    values = [min(int(random.expovariate(0.03)), 199) for _ in range(8)]
    score = sum(TASTE[place][value] for place, value in enumerate(values)) / 2 + numbers[0]
    score += 2 * TASTE[0][values[0]] * TASTE[1][values[1]]
    label = int(random.random() < 1 / (1 + 2.718281828 ** (1 - score)))
    return "\t".join([str(label), *(f"{number:.3f}" for number in numbers), *(f"v{value}" for value in values)])


if __name__ == "__main__":
    for name, count in {"train.tsv": 20_000, "test.tsv": 4_000}.items():
        Path(name).write_text("".join(f"{line()}\n" for _ in range(count)))
