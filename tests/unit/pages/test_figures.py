"""Figures on pages are those of the results files that they link to."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
README, PAGE, GUIDE = "README.md", "docs/benchmarks.md", "docs/collective.md"
GPU, EXAMPLES, STATIC = "docs/gpu.md", "docs/examples.md", "docs/static.md"
RECOMMENDERS = "examples/recommenders/README.md"
MODES = ("local", "sync", "async", "half_async", "geo")


def whole(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = whole(name)["cases"]
    return found


def medians(name: str) -> dict[str, float]:
    """The one median of each case."""
    return {case["case"]: value for case in cases(name) for field, value in case.items() if field.startswith("median_")}


def hundreds(value: float) -> str:
    return f"{round(value, -2):,.0f}"


def clicks() -> list[tuple[str, str]]:
    speed = {case: hundreds(value) for case, value in medians("ctr").items()}
    ours, exact, rec = speed["fleet async"], speed["fleet sync"], speed["TorchRec, sync, dim 12"]
    ddp, tensorflow, paddle = speed["DDP, sync"], speed["TensorFlow PS, async"], speed["Paddle 2.6, async"]
    return [
        (PAGE, f"the most that is possible | {speed['no server, 2 processes']} |"),
        (PAGE, f"**Fleet, async** | **{ours}** |"),
        (PAGE, f"since it refuses 10 | {rec} |"),
        (PAGE, f"**Fleet, sync** | **{exact}** |"),
        (PAGE, f"`nn.Embedding`, sync | {ddp} |"),
        (PAGE, f"`ParameterServerStrategy`, async | {tensorflow} |"),
        (PAGE, f"Paddle 2.6, async | {paddle} |"),
        (PAGE, f"Paddle 1.8, sync | {speed['Paddle 1.8, sync']} |"),
    ]


def data_plane() -> list[tuple[str, str]]:
    speed = {case: hundreds(value) for case, value in medians("ctr_2_cores").items()}
    scale = {case: hundreds(value) for case, value in medians("scale").items()}
    ours, exact, rec = speed["fleet async"], speed["fleet sync"], speed["TorchRec, sync, dim 12"]
    plane = {case["what"]: case["median"] for case in cases("plane")}
    found = [
        (
            PAGE,
            f"CPU time | {plane['pulls/s a core, data plane']:,.0f}; by gRPC {plane['pulls/s a core, gRPC']:,.0f} |",
        ),
        (PAGE, f"of a batch | {plane['ms a step of a worker, 100 servers']:.1f} ms |"),
        (PAGE, f"{plane['sync steps/s, 2000 workers']:.1f} synchronous steps a second"),
        (README, f"| {ours} async, {exact} sync; TorchRec {rec} |"),
        (README, f"| {scale['fleet async, 4 + 12']} async, {scale['fleet sync, 4 + 12']} sync |"),
        (PAGE, f"| **Fleet, geo** | **{speed['fleet geo']}** |"),
        (PAGE, f"share nothing | {speed['no server, 2 processes']} |"),
    ]
    return found + [
        (PAGE, f"| {scale[f'fleet {mode}, 1 + 1']} | {scale[f'fleet {mode}, 8 + 8']}, ") for mode in MODES[1:3]
    ]


def newest() -> list[tuple[str, str]]:
    speed = {case: hundreds(value) for case, value in {**medians("ctr_pairs"), **medians("ctr_bf16")}.items()}
    step = next(case["step_ms"] for case in cases("scale") if case["case"] == "fleet sync, 4 + 12")
    half = "bfloat16 autocast"
    return [
        (
            PAGE,
            f"medians of six: async {speed['fleet async']}, geo {speed['fleet geo']}, sync {speed['fleet sync']}, two",
        ),
        (PAGE, f"ran on one of the pairs, {speed['TorchRec, sync, dim 12']}."),
        (PAGE, f"async {speed[f'fleet async, {half}']}, sync {speed[f'fleet sync, {half}']}."),
        (PAGE, f"{step['gathering_ms']:.1f} ms, to apply all twelve {step['applying_ms']:.1f} and to answer them "),
    ]


def on_a_gpu() -> list[tuple[str, str]]:
    clicks = {(case["case"], case["batch_size"]): case["median_samples_per_s"] / 1000 for case in cases("gpu_ctr")}
    rows = {
        "no cache": "fleet",
        'no cache, `dense = "allreduce"`': "fleet, dense here",
        'no cache, `dense = "allreduce"`, `cuda_graphs`': "fleet, dense here, graphs",
        "cache of 10% of the rows": "fleet, cache",
        'cache of 10% of the rows, `dense = "allreduce"`': "fleet, cache, dense here",
        'cache of 10% of the rows, `dense = "allreduce"`, `cuda_graphs`': "fleet, cache, dense here, graphs",
        "torch, all rows in GPU memory: the most that is possible": "torch",
    }
    earlier = {(case["case"], case["batch_size"]): case["median_samples_per_s"] for case in cases("gpu_ctr_second")}
    examples = [case["raw"][0] for case in cases("dense_examples")]
    images, (messages,), programs = cases("images"), cases("transformer_messages"), cases("static_gpu")
    return [
        *((GPU, f"| {row} | {clicks[one, 1000]:,.0f} | {clicks[one, 16384]:,.0f} |") for row, one in rows.items()),
        (GPU, " and ".join(f"{earlier['fleet, async', size] / 1000:,.0f}" for size in (1000, 16384))),
        *((EXAMPLES, f"{100 * one['mfu']:.0f}% | {one['memory_bytes'] / 1e9:.1f} GB |") for one in examples),
        (EXAMPLES, f"{images[0]['images_per_s']:,.0f} in 8 processes and {images[1]['images_per_s']:,.0f} in 16"),
        (EXAMPLES, f"BLEU {messages['bleu']:.1f} on"),
        *(
            (STATIC, f"takes {1000 * one['median_s']:.1f} ms as it is and {1000 * one['median_torch_s']:.1f} in")
            for one in programs
        ),
    ]


def recommenders() -> list[tuple[str, str]]:
    found = [
        (RECOMMENDERS, f"{case.get('AUC', case.get('HR@10', 0)):{'.4f' if 'AUC' in case else '.3f'}}")
        for case in cases("models")
    ]
    found += [(RECOMMENDERS, f" | {case['samples_per_s']:,.0f} |") for case in cases("models")]
    for case in cases("movielens"):
        ours, theirs = (", ".join(f"{k} {v:.4f}" for k, v in case[who].items()) for who in ("ours_median", "recbole"))
        found.append((PAGE, f"| {case['case']} | {ours} | {case['recbole_model']} | {theirs} |"))
    modes = {case["case"]: case for case in cases("modes_auc")}
    found.append((PAGE, " | ".join(f"{modes[mode]['AUC']:.4f}" for mode in MODES)))
    found.append((PAGE, f"at most {modes['local']['ceiling']:.4f}"))
    return found


def collective() -> list[tuple[str, str]]:
    speed, gpu, link = medians("collective"), {**medians("gpu"), **medians("gpu_bert")}, cases("slow_link")
    systems = ("fleet", "ddp", "accelerate", "fabric")
    ways = ("fleet", "by hand", "baseline, eager")
    faster = {case["case"]: case["times_faster_than_reduce_grad"] for case in link}
    found = [
        (PAGE, " | ".join(f"{speed[f'mlp, {system}']:,.0f}" for system in (*systems, "paddle"))),
        (PAGE, " | ".join(f"{speed[f'transformer, {system}']:.1f}" for system in systems)),
        (PAGE, f"LocalSGD with k 4 is {faster['LocalSGD, k 4']:.1f} times and DGC {faster['DGC']:.1f}"),
    ]
    for model in ("resnet50", "bert"):
        row = " | ".join(f"{gpu[f'{model}, {way}']:,.0f}" for way in ways)
        found += [(PAGE, row), (GUIDE, row)]
    sides = {(one["case"], one["call"]): f"{one['over_by_hand_by_round']:.2f}" for one in cases("gpu_sides")}
    image = "resnet50, fleet"
    bert, before = cases("gpu_bert")[0], whole("gpu_bert")["before"][0]
    long = [sides[f"{image}, long", call] for call in ("first", "second")]
    found += [
        (GUIDE, f"was {long[0]} and {long[1]} times as fast as by hand for ResNet-50"),
        (GUIDE, f"`strategy.auto` by itself {sides[image, 'first']}; CUDA"),
        (GUIDE, f"BERT {bert['over_by_hand']:.2f} times as fast, {before['over_by_hand']:.2f} before"),
    ]
    for case in cases("gpu_warm_up"):
        found.append((GUIDE, f"| {case['warm_up_s']:.0f} | {case['median_items_per_s']:,.0f} |"))
    for case in link:
        found.append((GUIDE, f"{case['median_step_ms']:,.0f}"))
    return found


def tables() -> list[tuple[str, str]]:
    memory, lookup = cases("table")[:2]
    fill, keys = cases("table_fill"), cases("keys")
    one_core, two_cores = (
        {way: f"{took['median_s'] * 1e3:.0f} ms" for way, took in case["timings"].items()}
        for case in (next(one for one in keys if one["torch_threads"] == number) for number in (1, 2))
    )
    return [
        (PAGE, f"{memory['counted'] - memory['payload']:.0f} bytes |"),
        (PAGE, f"one thread | {1 / lookup['timings']['fleet']['wall']['median_s']:.1f} million a second"),
        (PAGE, f"the first 10 million | {fill[0]['rows_per_s'] / 1e6:.1f} million a second"),
        (PAGE, f"the last 10 million | {fill[9]['rows_per_s'] / 1e6:.1f} million a second"),
        (PAGE, f"{one_core['fleet']}; `torch.unique` {one_core['torch.unique']} |"),
        (PAGE, f"`torch.unique` {two_cores['torch.unique']} | |"),
    ]


def tls() -> list[tuple[str, str]]:
    times = {case["case"]: case["cpu_ms_per_batch"] for case in cases("tls")}
    more = {mode: f"{each['TLS'] / each['plain'] - 1:.0%}" for mode, each in times.items()}
    names = {"calls": "pull and push of 14,000 keys, one server, no model"}
    return [
        (PAGE, f"compute {times['async']['TLS']:.1f} ms for a batch instead of {times['async']['plain']:.1f} in async"),
        (PAGE, f"and {times['sync']['TLS']:.1f} instead of {times['sync']['plain']:.1f} in sync mode, "),
        (PAGE, f"{more['async']} and {more['sync']} more"),
        (PAGE, f"it would be {times['async']['TLS by gRPC']:.1f} and {times['sync']['TLS by gRPC']:.1f}"),
        ("docs/fleetrun.md", f"takes {more['async']} to {more['sync']} more CPU time with TLS"),
        *(
            (
                "docs/adr/0030-tls-on-the-data-plane.md",
                f"| {names.get(case, f'click model, {case}')} | "
                + " | ".join(f"{one:.1f}" for one in each.values())
                + " |",
            )
            for case, each in times.items()
        ),
    ]


def journal() -> list[tuple[str, str]]:
    ratio = {case["case"]: f"{case['over_no_journal']:.3f}" for case in cases("journal")}
    size = next(case["bytes_per_step"] for case in cases("journal") if case["case"] == "async os")
    later = {case["case"]: f"{case['over_no_journal']:.3f}" for case in cases("journal_interval")}
    (recovery,) = cases("recovery")
    took = f"recovered after {recovery['median_recovery_s']:.1f} s, and answers the first push "
    away = f"{recovery['median_away_s']:.1f} s after the kill"
    return [
        (PAGE, f"| `os` | {ratio['async os']} of the samples/s without a journal | {ratio['sync os']} |"),
        (PAGE, f"| `interval` | {ratio['async interval']} | {ratio['sync interval']} |"),
        (PAGE, f"| `always` | {ratio['async always']} | {ratio['sync always']} |"),
        (PAGE, f"`os` {later['async os']} and `interval` {later['async interval']}, medians of 5"),
        (PAGE, f"a worker's step is {size / 1e6:.1f} MB in the journals"),
        (PAGE, took + away),
        (README, f"| {recovery['median_away_s']:.1f} s, and nothing is lost |"),
        ("docs/guarantees.md", f"{recovery['median_recovery_s']:.1f} s"),
        ("docs/guarantees.md", f"{recovery['median_away_s']:.1f} s"),
    ]


def files() -> list[tuple[str, str]]:
    text, columns = cases("data")[:2]
    rates, times, parquet = text["rows_per_s"], text["times_faster_than"], columns["rows_per_s"]
    trained = cases("data")[2]["rows_per_s"]
    ways = ("pandas, object, hash_array", "pyarrow, dictionary, hash_array", "pyarrow, string, Fleet's hash")
    return [
        (PAGE, " | ".join(f"{rates[way]:,.0f}" for way in ("fleet", *ways))),
        (README, f"| {times[ways[0]]:.1f} times pandas, {times[ways[1]]:.1f} times pyarrow |"),
        (PAGE, f"{times[ways[0]]:.1f} times pandas and {times[ways[1]]:.1f} times pyarrow"),
        (PAGE, f"in Parquet is read at {parquet['fleet, Parquet, snappy']:,.0f} rows/s"),
        (PAGE, f"from text files reaches {trained['fleet'] / trained['from memory']:.1%} of"),
        (PAGE, f"and from Parquet {trained['from Parquet'] / trained['from memory']:.1%}."),
    ]


def queue() -> list[tuple[str, str]]:
    over = {case["case"]: f"{case['over_ideal']:.2f}" for case in cases("queue")}
    page = "docs/data.md"
    return [
        (page, f"took {over['queue']} of the ideal time with a queue, {over['queue, shuffled']} if rows are shuffled"),
        (page, f"and {over['fixed parts']} with fixed parts"),
    ]


def on_a_disk() -> list[tuple[str, str]]:
    flat, skewed = (case["share_of_memory"] for case in cases("large_table_warm") if case["stage"] == "train")
    return [(README, f"| {flat:.0%} of the speed; {skewed:.0%} where ids are more skewed |")]


def wire() -> list[tuple[str, str]]:
    """The table of formats: bytes up and down, speed over the cable, AUC."""
    found = {case["case"]: case for case in [*cases("wire"), *cases("wire_auc")]}
    rows = []
    for name in ("float32", "bfloat16", "int8", "int8, 1% of dense"):
        sync, after = found[f"200mbit, sync, {name}"], found[f"one epoch, {name}"]
        moved, other = sync["bytes_per_step"], found[f"200mbit, async, {name}"]
        speeds = [one["times_faster_than_float32"] for one in (sync, other)]
        rows.append(
            f"| {name} | {moved['sent'] / 1e6:.2f} | {moved['received'] / 1e6:.2f} | {sync['share_of_its_bytes']:.0%} "
            f"| {speeds[0]:.1f} | {speeds[1]:.1f} | {after['AUC']:.4f} |"
        )
    return [(PAGE, row) for row in rows]


def bound() -> list[tuple[str, str]]:
    found = {
        (case["mode"], case["workers"], case["way"], case["kind"]): case
        for case in cases("bound")
        if case["native_threads"] != "1"
    }
    record = "docs/adr/0039-processes-are-not-bound-to-cores.md"

    def speed(workers: int, way: str, kind: str = "train", times: int = 1) -> str:
        rates = [found[mode, workers, way, kind]["samples_per_s"] for mode in ("async", "sync")]
        return " | ".join(hundreds(times * rate) for rate in rates)

    def times(workers: int, way: str, kind: str = "train") -> str:
        raw = [found[mode, workers, way, kind]["raw_ms_a_batch"] for mode in ("async", "sync")]
        return " | ".join(f"{statistics.median(one):.1f} ({min(one):.1f} to {max(one):.1f})" for one in raw)

    steps = {(case["mode"], case["way"]): case for case in cases("bound_steps") if case["workers"] == 8}

    def row(mode: str, way: str) -> str:
        case = steps[mode, way]
        parts = [case["ms_per_batch"][part] for part in ("between", "slowest worker", "slowest in a step")]
        return f"| {hundreds(case['samples_per_s'])} | " + " | ".join(f"{part:.1f}" for part in parts) + " |"

    free = steps["sync", "free"]["ms_per_batch"]
    names = {
        "free": "free",
        "two CPUs for a worker and a server": "a pair for a worker and a server",
        "free, Python's garbage collector off": "free, without garbage collection",
    }
    return [
        *((record, f"| {mode}, {name} {row(mode, way)}") for mode in ("async", "sync") for name, way in names.items()),
        (PAGE, f"takes {free['between']:.1f} ms on average, and {free['slowest in a step']:.1f} in the slowest"),
        (record, f"a step of {free['batch']:.1f} ms"),
        (PAGE, f"| free | {speed(8, 'free')} |"),
        (PAGE, f"a worker and a server | {speed(8, 'a pair for a worker and a server')} |"),
        (PAGE, f"a CPU each | {speed(8, 'a CPU each')} |"),
        (PAGE, f"eight processes at once, free | {speed(8, 'free', 'compute')} |"),
        (PAGE, f"dense layers of one process | {speed(1, 'free', 'compute', 8)} |"),
        (record, f"| free | {times(8, 'free')} |"),
        (record, f"a worker and a server | {times(8, 'a pair for a worker and a server')} |"),
        (record, f"another for a server | {times(8, 'a CPU each')} |"),
        (record, f"servers free | {times(8, 'a CPU for a worker')} |"),
        (record, f"1 + 1, free | {times(1, 'free')} |"),
        (record, f"8 workers, free | {times(8, 'free', 'compute')} |"),
        (record, f"1 worker, free | {times(1, 'free', 'compute')} |"),
    ]


def others() -> list[tuple[str, str]]:
    static, start = medians("static"), medians("launch")
    return [
        (PAGE, " | ".join(f"{static[case]:,.0f}" for case in ("mlp, fleet, exe.run", "mlp, eager", "mlp, by hand"))),
        (PAGE, f"takes {1 - static['memory, optimized'] / static['memory, plain']:.0%} off"),
        (PAGE, " | ".join(f"{start[case]:.1f}" for case in ("fleetrun", "torchrun", "two bare processes"))),
    ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        *clicks(),
        *data_plane(),
        *recommenders(),
        *collective(),
        *tables(),
        *tls(),
        *newest(),
        *on_a_gpu(),
        *journal(),
        *files(),
        *queue(),
        *on_a_disk(),
        *wire(),
        *bound(),
        *others(),
    ],
)
def test_a_figure_is_that_of_its_file(page: str, text: str) -> None:
    assert text in re.sub(r"\s+", " ", (ROOT / page).read_text())


def test_words_of_paddle() -> None:
    named = {
        "Linear": "`Linear`",
        "3 layers": "three layers",
        "3 layers, 1.8": "three layers, 1.8's words",
        "small CNN": "a small CNN",
        "LSTM": "`LSTM`",
        "DeepFM": "DeepFM",
    }
    found = {(one["network"], one["optimizer"]): one for one in cases("words")}
    assert all(max(one["ratio"], one["forward_ratio"]) <= 1.15 for one in found.values())
    for network, name in named.items():
        sgd, adam = found[network, "SGD"], found[network, "Adam"]
        row = f"| {name} | {sgd['ratio']:.2f} | {adam['ratio']:.2f} | {sgd['forward_ratio']:.2f} |"
        assert row in (ROOT / PAGE).read_text(), row
