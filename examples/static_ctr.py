"""A click model as a static program over text files: rows on servers for any int64 id, AUC over all workers.

    python examples/static_ctr.py                                              one process, with the tables in it
    fleetrun --server_num 2 --worker_num 2 examples/static_ctr.py              two servers and two workers

A record is a click or none, a user, and the ads seen before: a line of MultiSlot text, as docs/data.md describes it.
The files are made here.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fleet
import fleet_programs as static
from fleet_programs import Variable, layers

USERS, ADS = 500, 2000
FILES, RECORDS = 4, 5000  # the last file is for evaluation
BATCH = 100
Feed = dict[str, Any]


def network() -> tuple[Variable, Variable, list[Variable]]:
    """The loss, the probability of a click, and the variables that a record is fed to, in the order of a line."""
    click = static.data("click", [None, 1])
    user = static.data("user", [None, 1], "int64")
    ads = static.data("ads", [None, 1], "int64", lod_level=1)  # any number of them
    of_user = layers.embedding(user, [USERS, 8], is_sparse=True)
    of_ads = layers.embedding(ads, [10 * ADS, 8], is_sparse=True, is_distributed=True)  # ids are hashes, not indices
    features = layers.concat([of_user, layers.sequence_pool(of_ads, "average")], axis=1)
    logit = layers.fc(layers.fc(features, 32, act="relu"), 1)
    loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logit, click))
    return loss, layers.sigmoid(logit), [click, user, ads]


def main(args: argparse.Namespace) -> None:
    fleet.init()
    loss, probability, record = network()
    fleet.distributed_optimizer(static.optimizer.Adagrad(0.1)).minimize(loss)
    if fleet.is_server():
        return fleet.run_server()
    evaluation = static.main_program.clone(for_test=True)  # after minimize: it knows where the rows are
    executor = static.Executor(static.CPUPlace())
    executor.run(static.startup_program)

    *files, unseen = [str(args.data / f"part-{part}.txt") for part in range(FILES)]
    if fleet.is_first_worker():
        write([*files, unseen])
    fleet.barrier_worker()
    training = dataset(record, fleet.util.get_file_shard(files))
    for epoch in range(args.epochs):
        training.global_shuffle(fleet)
        batches = fleet.data.shard(training)  # all workers make the same number of steps
        steps = fleet.util.all_reduce(-(-training.get_shuffle_data_size() // BATCH), "max")
        shown = fleet.progress(batches, f"epoch {epoch}", total=steps, enabled=fleet.is_first_worker())
        executor.train_from_dataset(
            static.main_program, shown, fetch_list=[loss], fetch_info=[f"epoch {epoch} loss"], print_period=50
        )
    own = dataset(record, [unseen]).batches(fleet.worker_index(), fleet.worker_num())
    score = auc(executor, evaluation, probability, own)
    if fleet.is_first_worker():
        rows = sum(table["rows"] for server in fleet.server_stats() for table in server["tables"].values())
        print(f"{fleet.worker_num()} worker(s), {rows} rows, AUC on unseen records {score:.3f}")
        fleet.save_persistables(executor, args.save)
        print(f"the rows of {USERS} users and {ADS} ads, and the layers, are saved in {args.save}")
    fleet.barrier_worker()
    fleet.stop_worker()


def dataset(record: list[Variable], files: list[str]) -> static.InMemoryDataset:
    """The records of some files, in memory."""
    made = static.InMemoryDataset()
    made.init(batch_size=BATCH, use_var=record)
    made.set_filelist(files)
    made.load_into_memory()
    return made


def auc(executor: static.Executor, evaluation: static.Program, probability: Variable, batches: Iterable[Feed]) -> float:
    """How well a program tells clicks from the rest, in the batches of all workers."""
    metric = fleet.metrics.AUC()
    for batch in batches:
        (scores,) = executor.run(evaluation, feed=batch, fetch_list=[probability], return_numpy=False)
        metric.update(scores, torch.from_numpy(batch["click"]))
    return fleet.metrics.AUC.from_state(fleet.util.all_reduce(metric.state())).compute()


def write(files: list[str]) -> None:
    """Users who like what they like, and ads that are more or less likeable, under hashed ids."""
    rng = np.random.default_rng(0)
    user_taste, ad_charm = rng.normal(0, 1, USERS), rng.normal(0, 3, ADS)
    hashes = rng.integers(-(2**63), 2**63, ADS)
    Path(files[0]).parent.mkdir(parents=True, exist_ok=True)
    for file in files:
        lines = []
        for user in rng.integers(USERS, size=RECORDS):
            ads = rng.integers(ADS, size=rng.integers(1, 6))
            click = int(user_taste[user] + ad_charm[ads].mean() + rng.logistic() > 0)
            lines.append(f"1 {click} 1 {user} {len(ads)} {' '.join(map(str, hashes[ads]))}\n")
        Path(file).write_text("".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train a click model as a static program")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--data", type=Path, metavar="DIR", default=Path("build/static-ctr/data"))
    parser.add_argument("--save", type=Path, metavar="DIR", default=Path("build/static-ctr/checkpoint"))
    main(parser.parse_args())
