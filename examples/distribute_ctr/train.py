"""Distributed CTR as a static program: Criteo's columns through a pipe, into memory, and over all workers.

    python examples/distribute_ctr/train.py                                        one process, with the tables in it
    fleetrun --server_num 2 --worker_num 2 examples/distribute_ctr/train.py        two servers and two workers
    fleetrun --server_num 2 --worker_num 2 examples/distribute_ctr/train.py --data DIR     files of your own

Each worker reads its share of the files through lines.py, all workers shuffle what they have among themselves, and
`train_from_dataset` trains. Files of your own are DIR/train/* and DIR/test/*, in Criteo's columns; without --data
some are made up. examples/recommenders/train.py does the same job with modules, and needs no pipe.
"""

import argparse
import sys
from pathlib import Path

import torch
from lines import CATEGORIES, COUNTS

import fleet
import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import Variable, layers

PIPE = f"{sys.executable} {Path(__file__).with_name('lines.py')}"
MOST_IDS = 10_000_000  # distinct ones; an id may be any int64


def network(dim: int, hidden: int) -> tuple[Variable, Variable, list[Variable]]:
    """The loss, the probability of a click, and the variables that a record is fed to, in the order of lines.py."""
    dense = static.data("dense_input", [None, COUNTS])
    slots = [static.data(f"C{place}", [None, 1], "int64") for place in range(1, CATEGORIES + 1)]
    label = static.data("label", [None, 1], "int64")
    factors = static.ParamAttr("SparseFeatFactors", initializer=static.initializer.Uniform(-0.01, 0.01))
    rows = [
        layers.embedding(slot, [MOST_IDS, dim], is_sparse=True, is_distributed=True, param_attr=factors)
        for slot in slots
    ]
    features = layers.concat([*rows, dense], axis=1)
    for _ in range(3):
        features = layers.fc(features, hidden, act="relu")
    chances = layers.fc(features, 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(chances, label))
    return loss, chances, [dense, *slots, label]


def main(args: argparse.Namespace) -> None:
    fleet.init(strategy=strategy_of(args.mode))
    loss, chances, record = network(args.dim, args.hidden)
    fleet.distributed_optimizer(static.optimizer.Adagrad(args.lr)).minimize(loss)
    if fleet.is_server():
        return fleet.run_server()
    evaluation = static.main_program.clone(for_test=True)
    executor = static.Executor(static.CPUPlace())
    executor.run(static.startup_program)

    folder = args.data or Path("build/distribute-ctr/data")
    ceiling = make(folder, args.samples) if args.data is None and fleet.is_first_worker() else None
    fleet.barrier_worker()
    training = dataset(record, folder / "train", args.batch_size)
    unseen = dataset(record, folder / "test", args.batch_size)
    for epoch in range(args.epochs):
        training.global_shuffle(fleet)
        batches = fleet.data.shard(training)  # all workers make the same number of steps
        shown = fleet.progress(batches, f"epoch {epoch}", enabled=fleet.is_first_worker())
        executor.train_from_dataset(
            static.main_program, shown, fetch_list=[loss], fetch_info=[f"epoch {epoch} loss"], print_period=50
        )
        auc = measure(executor, evaluation, chances, unseen)
        if fleet.is_first_worker():
            best = f" of at most {ceiling:.4f}" if ceiling else ""
            print(f"epoch {epoch}: AUC {auc:.4f}{best} over {fleet.worker_num()} worker(s)")
            fleet.save_persistables(executor, args.save / f"epoch-{epoch}")
        fleet.barrier_worker()
    if fleet.is_first_worker():
        print(f"saved in {args.save}")
    fleet.stop_worker()


def dataset(record: list[Variable], folder: Path, batch_size: int) -> static.InMemoryDataset:
    """This worker's share of a folder's files, in memory."""
    if not folder.is_dir():
        raise UsageError(f"--data: there is no folder {folder}; files to train on are in DIR/train, others in DIR/test")
    files = sorted(str(file) for file in folder.iterdir() if file.name[0] not in "._")
    made = static.InMemoryDataset()
    made.init(batch_size=batch_size, use_var=record, pipe_command=PIPE)
    made.set_filelist(fleet.util.get_file_shard(files))
    made.load_into_memory()
    return made


def measure(
    executor: static.Executor, evaluation: static.Program, chances: Variable, unseen: static.InMemoryDataset
) -> float:
    """The AUC over the records of all workers: counts are added, not areas."""
    metric = fleet.metrics.AUC()
    for batch in unseen:
        (found,) = executor.run(evaluation, feed=batch, fetch_list=[chances], return_numpy=False)
        metric.update(found[:, 1], torch.from_numpy(batch["label"]).squeeze(1))
    return fleet.metrics.AUC.from_state(fleet.util.all_reduce(metric.state())).compute()


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    """The fields that choose a mode."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 20 if mode == "geo" else 0
    return strategy


def make(folder: Path, samples: int) -> float:
    """Clicks in Criteo's columns, in files that the workers share out; the AUC of whoever knows how they were made."""
    clicks = fleet.data.synthetic.Clicks(samples + samples // 5)
    clicks.write(folder / "train", files=8, last=samples)
    clicks.write(folder / "test", files=2, first=samples)
    return clicks.ceiling(first=samples)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train a click model as a static program, over text files")
    parser.add_argument("--data", type=Path, metavar="DIR", help="files of your own")
    parser.add_argument("--samples", type=int, default=60_000, help="to make if there are none [default: 60000]")
    parser.add_argument("--save", type=Path, metavar="DIR", default=Path("build/distribute-ctr/saved"))
    parser.add_argument("--mode", choices=["sync", "async", "half_async", "geo"], default="sync")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=200, help="of each worker [default: 200]")
    parser.add_argument("--lr", type=float, default=0.05, help="of Adagrad [default: 0.05]")
    parser.add_argument("--dim", type=int, default=10, help="of a row [default: 10]")
    parser.add_argument("--hidden", type=int, default=400, help="width of the three layers [default: 400]")
    try:
        main(parser.parse_args())
    except fleet.FleetError as error:
        sys.exit(f"train.py: {error}")
