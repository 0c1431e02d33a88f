"""Charts of benchmarks/results/, written to docs/images/plots: `make docs`. A test holds them to the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from charts import Bar, Chart, svg

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FOLDER = ROOT / "docs" / "images" / "plots"


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a results file."""
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["cases"]
    return found


def medians(name: str) -> dict[str, float]:
    """The median of each case."""
    return {case["case"]: value for case in cases(name) for field, value in case.items() if field.startswith("median_")}


def bars(values: dict[str, float], labels: dict[str, str], *, digits: int = -2) -> list[Bar]:
    """Bars of some cases, the largest first; those whose label begins with Fleet are ours."""
    shown = sorted(labels, key=lambda case: -values[case])
    return [
        Bar(labels[case], values[case], f"{round(values[case], digits):,.0f}", labels[case].startswith("Fleet"))
        for case in shown
    ]


def clicks() -> Iterator[Chart]:
    """The click model beside its peers, then how it scales, then on a GPU."""
    labels = {
        "no server, 2 processes": "2 processes that share nothing",
        "fleet async": "Fleet, async",
        "fleet sync": "Fleet, sync",
        "TorchRec, sync, dim 12": "TorchRec 1.8, sync",
        "DDP, sync": "DDP, sync",
        "TensorFlow PS, async": "TensorFlow 2.21 PS, async",
        "Paddle 2.6, async": "Paddle 2.6, async",
        "Paddle 1.8, sync": "Paddle 1.8, sync",
    }
    chosen = bars(medians("ctr"), labels)
    yield Chart("clicks", "A click model beside its peers, on 2 cores", "samples/s", chosen, ["ctr.json"])
    newer = {one: labels[one] for one in ("no server, 2 processes", "fleet async", "fleet sync")}
    newer |= {"fleet geo": "Fleet, geo", "TorchRec, sync, dim 12": "TorchRec 1.6, sync"}
    title = "The same with native pulls and pushes, on 2 cores of another machine"
    yield Chart("clicks_native", title, "samples/s", bars(medians("ctr_2_cores"), newer), ["ctr_2_cores.json"])
    scale = {f"fleet {mode}, {size}": f"Fleet, {mode}, {size}" for mode in ("async", "sync") for size in SIZES}
    scale |= {
        "TorchRec table_wise, 12 ranks": "TorchRec, 12 ranks",
        "no server, 12 processes": "12 processes that share nothing",
    }
    chosen = bars(medians("scale"), scale)
    title = "The click model on 16 cores: servers + workers"
    yield Chart("scale", title, "samples/s", chosen, ["scale.json"])


SIZES = ("1 + 1", "8 + 8", "4 + 12")


def gpus() -> Iterator[Chart]:
    """Tables in host memory and one GPU; dense models on one GPU."""
    found = []
    for case in cases("gpu_ctr"):
        value, name = (
            case["median_samples_per_s"],
            case["case"].replace("fleet", "Fleet").replace("dense here", "all-reduce"),
        )
        label = f"{name.replace('torch', 'torch, all rows on the GPU')}, {case['batch_size']:,}"
        found.append(Bar(label, value, f"{value / 1000:,.0f}", name.startswith("Fleet")))
    unit = "thousands of samples/s, by size of batch"
    yield Chart("gpu_clicks", "A click model on one H200, tables in host memory", unit, found, ["gpu_ctr.json"])
    speed = {**medians("gpu"), **medians("gpu_bert")}
    ways = {"fleet": "Fleet, strategy.auto", "by hand": "tuned by hand", "baseline, eager": "as a beginner writes it"}
    models = {"resnet50": ("ResNet-50, batch 256", ["gpu.json"])}
    models["bert"] = ("BERT-base, batch 128 x 128", ["gpu_bert.json", "gpu.json"])
    for model, (title, files) in models.items():
        chosen = bars(speed, {f"{model}, {way}": label for way, label in ways.items()}, digits=0)
        yield Chart(f"gpu_{model}", f"{title}, one H200", "images or sequences/s", chosen, files)


def others() -> Iterator[Chart]:
    """Readers, journals, tables, the AUC of each mode."""
    read, columns = (case["rows_per_s"] for case in cases("data")[:2])
    labels = {
        "fleet": "Fleet, text",
        "pyarrow, string, Fleet's hash": "pyarrow with Fleet's hash, text",
        "pyarrow, dictionary, hash_array": "pyarrow, text",
        "pandas, object, hash_array": "pandas, text",
        "fleet, Parquet, snappy": "Fleet, Parquet",
    }
    chosen = bars({**read, **columns}, labels)
    yield Chart("readers", "A Criteo file to tensors, one thread", "rows/s", chosen, ["data.json"])
    kept = {case["case"]: case["over_no_journal"] for case in cases("journal")}
    chosen = [
        Bar(f"{mode}, --journal {way}", kept[f"{mode} {way}"], f"{kept[f'{mode} {way}']:.3f}")
        for mode in ("async", "sync")
        for way in ("os", "interval", "always")
    ]
    title = "What a durable job keeps of its speed"
    yield Chart("journal", title, "samples/s with a journal, over those without", chosen, ["journal.json"])
    filled = [case for case in cases("table_fill") if case.get("name") == "fill"]
    chosen = [
        Bar(f"up to {case['rows'] / 1e6:.0f} million rows", case["rows_per_s"], f"{case['rows_per_s'] / 1e6:.1f}")
        for case in filled
    ]
    yield Chart("table", "Making 100 million rows of 8", "millions of rows/s", chosen, ["table_fill.json"])
    shares = {
        f"Zipf {case['exponent']}, {state}": case["share_of_memory"]
        for name, state in (("large_table_warm", "hot rows in memory"), ("large_table", "none in memory at first"))
        for case in cases(name)
        if case["stage"] == "train"
    }
    chosen = [Bar(label, value, f"{value:.0%}") for label, value in shares.items()]
    title = "600 million rows on a disk: speed of training over that with all rows in memory"
    yield Chart("large_tables", title, "CTR-DNN, batch 1,000", chosen, ["large_table_warm.json", "large_table.json"])
    names = {"local": "one process", "half_async": "half-async"}
    learnt = {names.get(case["case"], case["case"]): case["AUC"] for case in cases("modes_auc")}
    chosen = [Bar(name, value, f"{value:.4f}") for name, value in learnt.items()]
    ceiling = cases("modes_auc")[0]["ceiling"]
    chosen.append(Bar("the most that can be reached", ceiling, f"{ceiling:.4f}", is_ours=False))
    unit = "AUC after one epoch; bars begin at 0.80"
    yield Chart("modes", "What is learnt in each mode", unit, chosen, ["modes_auc.json"], least=0.8)


def zoo() -> Iterator[Chart]:
    """MovieLens beside RecBole, and the models of fleet.models on made-up clicks."""
    found = []
    for case in cases("movielens"):
        metric = next(iter(case["ours_median"]))
        pairs = (("Fleet, " + case["case"], "ours_median"), ("RecBole, " + case["recbole_model"], "recbole"))
        for label, who in pairs:
            value = case[who][metric]
            found.append(Bar(f"{label}: {metric}", value, f"{value:.4f}", who == "ours_median"))
    yield Chart("movielens", "MovieLens-100k beside RecBole", "AUC, or HR@10", found, ["movielens.json"])
    speed = {case["case"]: case["samples_per_s"] for case in cases("models")}
    chosen = bars(speed, {name: f"Fleet, {name}" for name in speed})
    title = "Every model of fleet.models in one process, on CPU"
    yield Chart("models", title, "samples/s", chosen, ["models.json"])


def charts() -> Iterable[Chart]:
    """All of them."""
    yield from clicks()
    yield from gpus()
    yield from others()
    yield from zoo()


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for chart in charts():
        (FOLDER / f"{chart.name}.svg").write_text(svg(chart))
