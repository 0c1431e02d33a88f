"""Fields about the bytes between workers and servers: what may travel less exactly than it is held."""

from fleet.strategy.field import maybe_number, switch, text
from fleet.strategy.group import Group

FORMATS = ("float32", "bfloat16", "float16", "int8")
"""In the order of their numbers in proto/ps.proto."""
VALUE_FORMATS = ("float32", "bfloat16", "float16")


class WireConfigs(Group):
    """How floats travel. Servers hold and update everything in full; float32 changes no bit."""

    rows = text(
        "float32",
        "is how rows come to the workers, of every table that says nothing else "
        '(`fleet.nn.Embedding(..., wire="bfloat16")`). int8 has a scale for each row.',
        *FORMATS,
    )
    gradients = text(
        "float32",
        "is how gradients of rows, or in geo mode differences, go to the servers. float16 and int8 are rounded up or "
        "down by chance, so that small ones are not lost.",
        *FORMATS,
    )
    dense = text(
        "float32",
        "is how dense parameters come with the answer to a push; `fleet.stop_worker()` reads them in full.",
        *VALUE_FORMATS,
    )
    dense_gradients = text(
        "float32",
        "is how gradients of dense parameters go to the servers. What rounding takes away is added to the next ones. "
        "int8 has a scale for 64 values.",
        *FORMATS,
    )
    dense_ahead = switch(
        True,
        "lets gradients of dense parameters leave while backward still runs, where they are sent to another machine: "
        "in sync mode, from CPU memory, in float32. It changes no bit. False sends them with the step.",
    )
    dense_topk = maybe_number(
        "is the share of the dense gradients that a push has: the largest; the rest is added to the next ones. None "
        "sends all.",
        above=0,
        below=1,
    )
