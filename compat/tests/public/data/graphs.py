"""Graphs of the forms that PGL's examples read; what all of them need of an older Python is put back beside them.

PGL itself has the citation graphs and BlogCatalog.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_OLDER = '''"""What PGL 1.2 and 2.1 expect of the Python and libraries of their time."""
import collections.abc
import pickle
import sys
import types

import numpy

for name in ("Iterable", "Mapping", "MutableMapping", "Sequence", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))

array = numpy.array


def ragged(given, *args, **named):
    try:
        return array(given, *args, **named)
    except ValueError:
        if args or named:
            raise
        made = numpy.empty(len(given), dtype=object)
        made[:] = given
        return made


numpy.array = ragged


class Written:
    def __init__(self, data):
        self.data = data

    def to_buffer(self):
        return self.data


class Context:
    def serialize(self, value):
        return Written(pickle.dumps(value))

    def deserialize(self, data):
        return pickle.loads(data)

    def register_type(self, *args, **named):
        pass


try:
    import pyarrow
except ImportError:
    pyarrow = sys.modules["pyarrow"] = types.ModuleType("pyarrow")
pyarrow.default_serialization_context = Context

import yaml

load = yaml.load
yaml.load = lambda given, Loader=yaml.FullLoader: load(given, Loader)
'''


def citations(folder: Path) -> None:
    """Nothing but what is put back: the graph is PGL's own."""
    (folder / "sitecustomize.py").write_text(_OLDER)


def reddit(folder: Path) -> None:
    """600 posts of six groups: features that tell the group in part, edges mostly inside it."""
    from scipy.sparse import coo_matrix, save_npz  # type: ignore[import-untyped]

    citations(folder)
    random = np.random.default_rng(1)
    groups = random.integers(0, 6, 600)
    feats = random.normal(0, 1, (600, 32)) + random.normal(0, 1, (6, 32))[groups]
    edges = _edges(random, groups, 3000)
    (folder / "data").mkdir(exist_ok=True)
    save_npz(folder / "data" / "reddit_adj.npz", coo_matrix((np.ones(len(edges)), edges.T), (600, 600)))
    parts = np.split(random.permutation(600), [400, 500])
    named: dict[str, Any] = {"feats": feats}
    for name, part in zip(("train", "val", "test"), parts, strict=True):
        named |= {f"{name}_index": part, f"y_{name}": groups[part]}
    np.savez(folder / "data" / "reddit.npz", **named)


def rings_and_stars(folder: Path) -> None:
    """200 small graphs, each a ring or a star; one in six says that it is the other."""
    citations(folder)
    random = np.random.default_rng(1)
    lines = ["200"]
    for number in range(200):
        count, is_ring = int(random.integers(5, 12)), number % 2
        lines.append(f"{count} {is_ring ^ int(random.random() < 1 / 6)}")
        for node in range(count):
            ring = [(node - 1) % count, (node + 1) % count]
            others = ring if is_ring else [0] if node else list(range(1, count))
            lines.append(" ".join(map(str, [node % 3, len(others), *others])))
    for place in ("gin_data", "dataset"):
        made = folder / place / "MUTAG"
        made.mkdir(parents=True, exist_ok=True)
        (made / "MUTAG.txt").write_text("\n".join(lines) + "\n")


def flickr(folder: Path) -> None:
    """300 people of five groups, and who knows whom."""
    citations(folder)
    random = np.random.default_rng(1)
    groups = random.integers(0, 5, 300)
    made = folder / "data" / "flickr"
    made.mkdir(parents=True, exist_ok=True)
    (made / "nodes.txt").write_text("".join(f"{node + 1}\n" for node in range(300)))
    (made / "nodes_label.txt").write_text("".join(f"{node + 1},{group + 1}\n" for node, group in enumerate(groups)))
    (made / "edges.txt").write_text("".join(f"{a + 1}\t{b + 1}\n" for a, b in _edges(random, groups, 1500)))


def facts(folder: Path) -> None:
    """Triples of 100 things and 4 relations: the relation says by how much the number grows."""
    citations(folder)
    random = np.random.default_rng(1)
    made = folder / "data" / "small"
    made.mkdir(parents=True, exist_ok=True)
    (made / "entity2id.txt").write_text("".join(f"thing{number}\t{number}\n" for number in range(100)))
    (made / "relation2id.txt").write_text("".join(f"plus{number}\t{number}\n" for number in range(4)))
    for name, count in (("train", 800), ("valid", 20), ("test", 20)):
        heads, relations = random.integers(0, 100, count), random.integers(0, 4, count)
        tails = (heads + 7 * relations + 3) % 100
        lines = [f"thing{h}\tthing{t}\tplus{r}\n" for h, r, t in zip(heads, relations, tails, strict=True)]
        (made / f"{name}.txt").write_text("".join(lines))


def relations(folder: Path) -> None:
    """200 things of four groups, with edges of two kinds in files of their own."""
    citations(folder)
    random = np.random.default_rng(1)
    groups = random.integers(0, 4, 200)
    (folder / "data" / "edges").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "node_labels.txt").write_text("".join(f"{n}\t{group}\n" for n, group in enumerate(groups)))
    order = random.permutation(200)
    for name, part in (("train_idx", order[:120]), ("test_idx", order[120:])):
        (folder / "data" / f"{name}.txt").write_text("".join(f"{n}\n" for n in part))
    for kind in range(2):
        lines = [f"{a}\t{b}\n" for a, b in _edges(random, groups, 1200)]
        (folder / "data" / "edges" / f"kind{kind}.txt").write_text("".join(lines))


def _edges(random: np.random.Generator, groups: npt.NDArray[Any], count: int, inside: float = 0.9) -> npt.NDArray[Any]:
    """At most so many pairs of nodes, none twice or with itself; the share `inside` of them in one group."""
    first = random.integers(0, len(groups), count)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    own = np.array([random.choice(members[groups[one]]) for one in first])
    second = np.where(random.random(count) < inside, own, random.integers(0, len(groups), count))
    pairs = np.unique(np.sort(np.stack([first, second], 1)), axis=0)
    mixed: npt.NDArray[Any] = random.permutation(pairs[pairs[:, 0] != pairs[:, 1]])
    return mixed
