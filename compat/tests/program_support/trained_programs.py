"""Small trained programs, as (main, startup), that the transpiler is tested with."""

from __future__ import annotations

from collections.abc import Callable

from fleet_programs import ParamAttr, layers, optimizer
from fleet_programs.backward import clip
from fleet_programs.expressions import names
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable

Pair = tuple[Program, Program]
SEED = 3


def built(minimize: Callable[[], object]) -> Pair:
    """The programs of a function that adds layers and an optimizer to the default ones."""
    main, startup = Program(), Program()
    main.random_seed = startup.random_seed = SEED
    with names.guard(), program_guard(main, startup):
        minimize()
    return main, startup


def _line(size: int = 4) -> Variable:
    x, y = layers.data("x", [size]), layers.data("y", [1])
    return layers.mean(layers.square_error_cost(layers.fc(x, 1), y))


def fit_a_line() -> Pair:
    return built(lambda: optimizer.SGD(0.01).minimize(_line()))


def mlp() -> Pair:
    """Two layers, of which the first is large enough to be cut in two; its bias has a rate of its own."""

    def minimize() -> None:
        x, y = layers.data("x", [128]), layers.data("y", [1], dtype="int64")
        hidden = layers.fc(x, 200, act="relu", bias_attr=ParamAttr(learning_rate=2.0))
        loss = layers.mean(layers.cross_entropy(layers.fc(hidden, 2, act="softmax"), y))
        optimizer.Adam(0.01).minimize(loss)

    return built(minimize)


def ctr() -> Pair:
    """Two sparse tables, one of them distributed and ragged, and a dense layer."""

    def minimize() -> None:
        user, y = layers.data("user", [1], dtype="int64"), layers.data("y", [1])
        ads = layers.data("ads", [1], dtype="int64", lod_level=1)
        parts = [
            layers.embedding(user, [100, 4], is_sparse=True, padding_idx=0),
            layers.sequence_pool(layers.embedding(ads, [1000, 8], is_sparse=True, is_distributed=True), "sum"),
        ]
        logits = layers.fc(layers.concat(parts, axis=1), 1)
        loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logits, y))
        optimizer.Adagrad(0.05).minimize(loss)

    return built(minimize)


def word2vec() -> Pair:
    """One sparse table that four lookups share."""

    def minimize() -> None:
        words = [layers.data(name, [1], dtype="int64") for name in ("first", "second", "third", "fourth")]
        shared = [layers.embedding(one, [50, 8], is_sparse=True, param_attr="shared_w") for one in words]
        y = layers.data("next", [1], dtype="int64")
        loss = layers.mean(layers.cross_entropy(layers.fc(layers.concat(shared, axis=1), 50, act="softmax"), y))
        optimizer.SGD(0.1).minimize(loss)

    return built(minimize)


def schedule() -> Pair:
    return built(lambda: optimizer.Momentum(layers.exponential_decay(0.1, 10, 0.5), 0.9).minimize(_line()))


def clipped() -> Pair:
    limit = clip.GradientClipByGlobalNorm(1.0)
    return built(lambda: optimizer.SGD(0.01, grad_clip=limit).minimize(_line()))


def tied() -> Pair:
    """A sparse table that is a weight as well, so that it cannot be on servers by rows."""

    def minimize() -> None:
        word, y = layers.data("word", [1], dtype="int64"), layers.data("y", [1], dtype="int64")
        rows = layers.embedding(word, [20, 4], is_sparse=True, param_attr="tied_w")
        guess = layers.softmax(layers.matmul(rows, rows.block.var("tied_w"), transpose_y=True))
        loss = layers.mean(layers.cross_entropy(guess, y))
        optimizer.SGD(0.1).minimize(loss)

    return built(minimize)


def looped() -> Pair:
    """A state that goes through one layer as often as a batch says, a branch, and rows looked up before and inside."""

    def minimize() -> None:
        x, y = layers.data("x", [4]), layers.data("y", [1])
        turns, ids = (
            layers.data("turns", [1], dtype="int64", append_batch_size=False),
            layers.data("ids", [1], dtype="int64"),
        )
        begin = layers.fill_constant([1], "int64", 0)

        def body(i: Variable, state: Variable) -> tuple[Variable, Variable]:
            found = layers.embedding(ids, [50, 4], is_sparse=True, param_attr="inside")
            return i + 1, layers.fc(state + found, 4, act="tanh", param_attr="again.w", bias_attr="again.b")

        first = x + layers.embedding(ids, [100, 4], is_sparse=True, param_attr="before")
        _, state = layers.while_loop(lambda i, _: i < turns, body, [begin, first])
        state = layers.cond(layers.mean(x) > 0.0, lambda: layers.fc(state, 4, param_attr="side"), lambda: state)
        optimizer.SGD(0.1).minimize(layers.mean(layers.square_error_cost(layers.fc(state, 1), y)))

    return built(minimize)
