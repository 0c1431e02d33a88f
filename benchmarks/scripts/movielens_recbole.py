"""RecBole's model on files that benchmarks/movielens.py prepared; run with the Python that has RecBole.

    python movielens_recbole.py MODEL FOLDER OUT [--epochs 300]

MODEL is DeepFM, DCNV2 or DIN (clicks), SASRec or BPR (sequences). RecBole's own defaults decide about the model, its
training and when to stop. OUT gets the scores of the test set, by the names of users and items, as .npz; what they are
worth is measured by who called.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

CLICKS = ("DeepFM", "DCNV2", "DIN")


def settings(model: str, folder: Path, epochs: int) -> dict[str, object]:
    """What is not RecBole's default: the data, what is measured, and the device."""
    common = {
        "data_path": str(folder),
        "checkpoint_dir": str(folder / "saved"),
        "epochs": epochs,
        "show_progress": False,
        "use_gpu": torch.cuda.is_available(),
        "seed": 2020,
        "MAX_ITEM_LIST_LENGTH": 50,
        "eval_batch_size": 4096,
    }
    if model in CLICKS:
        inter = ["user_id", "item_id", "label", *(["item_id_list"] if model == "DIN" else [])]
        return common | {
            "benchmark_filename": ["train", "valid", "test"],
            "load_col": {
                "inter": inter,
                "user": ["user_id", "age", "gender", "occupation", "zip"],
                "item": ["item_id", "year", "genres"],
            },
            "alias_of_item_id": ["item_id_list"] if model == "DIN" else None,
            "LABEL_FIELD": "label",
            "train_neg_sample_args": None,
            "eval_args": {"split": {"RS": [0.8, 0.1, 0.1]}, "group_by": "none", "order": "TO", "mode": "labeled"},
            "metrics": ["AUC", "LogLoss"],
            "valid_metric": "AUC",
        }
    return common | {
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {"split": {"LS": "valid_and_test"}, "group_by": "user", "order": "TO", "mode": "full"},
        "metrics": ["Hit", "NDCG"],
        "topk": [10],
        "valid_metric": "NDCG@10",
        **({"train_neg_sample_args": None} if model == "SASRec" else {}),
    }


def main(args: argparse.Namespace) -> None:
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_logger, init_seed

    torch.set_num_threads(1)
    args.folder, args.out = args.folder.absolute(), args.out.absolute()
    os.chdir(args.folder)  # it leaves logs where it runs
    load = torch.load
    torch.load = lambda *given, **named: load(*given, **{"weights_only": False, **named})  # its own checkpoints
    kind = "clicks" if args.model in CLICKS else "sequences"
    config = Config(args.model, kind, config_dict=settings(args.model, args.folder, args.epochs))
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    dataset = create_dataset(config)
    train, valid, test = data_preparation(config, dataset)
    init_seed(config["seed"], config["reproducibility"])
    model = get_model(args.model)(config, train._dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], args.model)(config, model)
    start = time.perf_counter()
    trainer.fit(train, valid, show_progress=False)
    seconds = time.perf_counter() - start
    own = trainer.evaluate(test, load_best_model=True, show_progress=False)
    print(f"{args.model}: RecBole itself says {dict(own)}, {seconds:.0f} s", flush=True)
    model.eval()
    found = clicks(model, test, dataset, config) if kind == "clicks" else rankings(model, test, dataset, config)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    used = f"recbole {version('recbole')}, torch {torch.__version__}, {device}"
    np.savez(args.out, seconds=seconds, used=used, **found)


def clicks(model: Any, test: Any, dataset: Any, config: Any) -> dict[str, Any]:
    """Users, items and scores, a row for each sample of the test set."""
    parts = []
    for interaction, *_ in test:
        with torch.no_grad():
            scores = model.predict(interaction.to(config["device"])).cpu().numpy()
        users = dataset.id2token("user_id", interaction["user_id"].cpu().numpy())
        parts.append((users, dataset.id2token("item_id", interaction["item_id"].cpu().numpy()), scores))
    users, items, scores = map(np.concatenate, zip(*parts, strict=True))
    return {"users": users.astype("U"), "items": items.astype("U"), "scores": scores}


def rankings(model: Any, test: Any, dataset: Any, config: Any) -> dict[str, Any]:
    """Users, items, and scores [users, items]."""
    names, rows = [], []
    for interaction, *_ in test:
        with torch.no_grad():
            scores = model.full_sort_predict(interaction.to(config["device"]))
        rows.append(scores.view(len(interaction), -1).cpu().numpy()[:, 1:])  # item 0 is padding
        names.append(dataset.id2token("user_id", interaction["user_id"].cpu().numpy()))
    items = dataset.id2token("item_id", np.arange(1, dataset.num("item_id")))
    return {"users": np.concatenate(names).astype("U"), "items": items.astype("U"), "scores": np.concatenate(rows)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=[*CLICKS, "SASRec", "BPR"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=300)
    main(parser.parse_args())
