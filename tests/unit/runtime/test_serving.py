"""A trained model in a process without a job: loaded from a folder or a state_dict, called, copied, exported."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import CheckpointError, NotReadyError, UsageError, UsageTypeError
from fleet.nn import Embedding, EmbeddingCollection, Slot, holder
from fleet.ps.worker import optimizer

# Before there is a process group: functions of torch that are imported later keep it as the default of an argument.
from fleet.runtime.training.checkpoint import Checkpoint
from support.parity.training import Trainer, joined, served, strategy

ADAGRAD = fleet.rules.Adagrad(lr=0.1)


class Tower(nn.Module):
    """Every kind of lookup, tables that several modules share, layers that are tied or frozen, buffers of any type."""

    steps: torch.Tensor
    scale: torch.Tensor
    ones: torch.Tensor

    def __init__(self, unseen: str = "zeros") -> None:
        super().__init__()
        self.plain = Embedding(4, rule=ADAGRAD, unseen=unseen)
        self.bags = Embedding(4, table="shared", pooling="mean", rule=ADAGRAD)
        self.sums = Embedding(4, table="shared", pooling="sum", rule=ADAGRAD)
        self.slots = EmbeddingCollection(
            [
                Slot("user", 4, rule=ADAGRAD),
                Slot("items", 4, table="shared", rule=ADAGRAD),
                Slot("clicked", 4, table="shared", pooling="mean", rule=ADAGRAD),
            ]
        )
        self.norm = nn.BatchNorm1d(4)
        self.up = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.up.weight
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 1)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("scale", torch.rand(4).bfloat16())
        self.register_buffer("ones", torch.ones(4), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores of [B, 3] ids."""
        rows = self.slots({"user": ids[:, 0], "items": ids[:, 1], "clicked": ids})
        total = self.plain(ids).sum(1) + self.bags(ids) + self.sums(ids) + sum(rows.values())
        if self.training:
            self.steps += 1
        hidden = self.frozen(self.norm(total)) * self.ones + self.steps
        scores: torch.Tensor = self.out(self.tied(self.up(hidden)) * self.scale).squeeze(1)
        return scores


IDS = torch.tensor([[1, 2, 3], [4, 5, 6], [1, 39, 2**62], [-7, 12345, 2]])
"""Some were trained, some were not."""


@pytest.fixture
def trained() -> Iterator[Trainer]:
    with served(2) as (endpoints, _), joined(endpoints, model=Tower()) as one:
        one.train(3)
        yield one


def scores(model: nn.Module, ids: torch.Tensor = IDS) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(ids)
    return found


def evaluated(one: Trainer, ids: torch.Tensor = IDS) -> torch.Tensor:
    one.model.eval()
    found = scores(one.model, ids)
    one.model.train()
    return found


def equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def save_step(one: Trainer, folder: Path) -> None:
    with Checkpoint(folder.parent, model=one.model, optimizer=one.optimizer) as checkpoint:
        checkpoint.save(7)


SAVES: dict[str, Callable[[Trainer, Path], object]] = {
    "model": lambda one, folder: one.fleet.save_inference_model(folder),
    "checkpoint": lambda one, folder: one.fleet.save_persistables(folder),
    "step-00000007": save_step,
}


@pytest.mark.parametrize("name", SAVES)
def test_a_folder_serves_what_was_trained(trained: Trainer, tmp_path: Path, name: str) -> None:
    SAVES[name](trained, tmp_path / name)
    model = fleet.load_inference_model(tmp_path / name, Tower())
    assert not any(module.training for module in model.modules())
    equal(scores(model), evaluated(trained))
    assert model.bags.weight is model.sums.weight


@pytest.mark.parametrize("unseen", ["zeros", "initial"])
def test_ids_without_a_row_read_as_they_do_in_evaluation(tmp_path: Path, unseen: str) -> None:
    with joined(model=Tower(unseen)) as one:
        one.train(2)
        one.fleet.save_inference_model(tmp_path / "model")
        never = torch.tensor([[-1, -2, 2**61]])
        model = fleet.load_inference_model(tmp_path / "model", Tower(unseen))
        rows = scores(model.plain, never)
        equal(rows, evaluated_rows(one, never))
        assert bool((rows == 0).all()) == (unseen == "zeros")
    other = Tower("initial" if unseen == "zeros" else "zeros")
    with pytest.raises(CheckpointError, match=r"ids without a row read as .* in table 'plain' of this model and as"):
        fleet.load_inference_model(tmp_path / "model", other)


def evaluated_rows(one: Trainer, ids: torch.Tensor) -> torch.Tensor:
    assert isinstance(one.model, Tower)
    one.model.eval()
    return scores(one.model.plain, ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("saved") / "model"
    with joined(model=Tower()) as one:
        one.train(3)
        one.fleet.save_inference_model(made)
    return made


def test_a_model_with_rows_is_a_module_like_any_other(folder: Path) -> None:
    model = fleet.load_inference_model(folder, Tower())
    expected = scores(model)
    equal(scores(copy.deepcopy(model)), expected)
    equal(scores(pickle.loads(pickle.dumps(model))), expected)
    equal(scores(torch.compile(model, backend="aot_eager", fullgraph=True)), expected)  # type: ignore[arg-type]
    into = io.BytesIO()
    torch.save(model.state_dict(), into)
    into.seek(0)
    again = Tower()
    again.load_state_dict(torch.load(into))
    equal(scores(again.eval()), expected)
    again.load_state_dict(model.state_dict())
    equal(scores(again), expected)


class Padded(nn.Module):
    """Ids that stand for nothing, and rows with a weight each."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = Embedding(4, table="ids", pooling="mean", rule=ADAGRAD, padding_idx=3)
        self.sum = Embedding(4, table="ids", pooling="sum", rule=ADAGRAD)
        self.slots = EmbeddingCollection(
            [
                Slot("one", 4, table="ids", pooling="mean", rule=ADAGRAD, padding_idx=5),
                Slot("two", 4, table="ids", pooling="sum", rule=ADAGRAD),
            ]
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Sums of [B, 3] ids."""
        weights = ids.remainder(7).float()
        slots = self.slots({"one": ids, "two": (ids, None, weights)})
        rows = self.mean(ids) + self.sum(ids, per_sample_weights=weights) + slots["one"] - slots["two"]
        total: torch.Tensor = rows.sum(1)
        return total


def test_it_can_be_exported_for_batches_of_any_size(tmp_path: Path) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower, self.padded = Tower("initial"), Padded()

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            total: torch.Tensor = self.tower(ids) + self.padded(ids)
            return total

    many = torch.randint(0, 60, (9, 3))
    with joined(model=Both()) as one:
        one.train(3)
        expected = evaluated(one, many)
        one.fleet.save_inference_model(tmp_path / "model")
    model = fleet.load_inference_model(tmp_path / "model", Both())
    equal(scores(model, many), expected)
    exported = torch.export.export(model, (IDS,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    path = tmp_path / "model.pt2"
    torch.export.save(exported, path)
    equal(torch.export.load(path).module()(many), expected)


def test_rows_stay_where_they_are_put(folder: Path) -> None:
    """A model that is moved or cast takes its rows along, and a second folder takes the place of the first."""
    model = fleet.load_inference_model(folder, Tower().double())
    assert model.plain.weight.dtype == torch.float64
    assert scores(model).dtype == torch.float64
    fleet.load_inference_model(folder, model)
    assert not model.plain.weight.requires_grad


def test_an_empty_table_serves_zeros(tmp_path: Path) -> None:
    with joined(model=Embedding(3, "ads", rule=ADAGRAD)) as one:
        one.fleet.save_inference_model(tmp_path / "model")
    model = fleet.load_inference_model(tmp_path / "model", Embedding(3, "ads"))
    assert torch.equal(model(IDS), torch.zeros(4, 3, 3))


def test_first_values_leave_nothing_behind() -> None:
    """The core tells of its objects that outlive the interpreter, in the terminal of the user."""
    text = """
import torch
from fleet.nn import Embedding
from fleet.nn.holder import Rows

model = Embedding(2, "ads", unseen="initial")
model.hold([Rows(torch.tensor([1]), torch.ones(1, 2))], "")
print(model(torch.tensor([1, 2])).shape)
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=100)
    assert (ended.stdout, ended.stderr) == ("torch.Size([2, 2])\n", "")


class Other(Tower):
    """One thing about it is another."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"extra": nn.Linear(2, 2)}, "has no 'extra.weight', which this model has"),
        ({"extra": nn.BatchNorm1d(1, affine=False)}, "has no 'extra.running_mean', which this model has"),
        ({"out": nn.Linear(5, 1)}, r"'out.weight' has shape \[1, 5\] in this model and \[1, 4\] in "),
        ({"extra": Embedding(4, "other")}, "has no table 'other', which this model has; its tables: 'plain', 'shared'"),
        ({"plain": Embedding(5)}, "table 'plain' has width 5 in this model and 4 in "),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_loaded(folder: Path, parts: dict[str, nn.Module], says: str) -> None:
    model = Other(**parts)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(CheckpointError, match=says):
        fleet.load_inference_model(folder, model)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_the_model_does_not_have_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = nn.ModuleDict({"norm": nn.BatchNorm1d(4), "bags": Embedding(4, "shared")})
    fleet.load_inference_model(folder, model)
    (said,) = caplog.messages
    assert "'up.weight', 'up.bias', 'out.weight', 'out.bias'" in said
    assert said.endswith("'tied.weight', 'plain', 'user', which this model does not have")
    caplog.clear()
    fleet.load_inference_model(folder, Tower())
    assert not caplog.messages


def test_folders_of_another_kind_are_named(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__model__").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "run" / "step-00000002").mkdir(parents=True)
    (tmp_path / "run" / "step-00000002" / "manifest.json").write_text("{}")
    for name, says in {
        "program": "has the inference model of a program; load it with fleet_programs.load_inference_model()",
        "empty": "no inference copy or checkpoint in .*: it is empty; give the folder that was saved",
        "nowhere": "there is no such folder",
        "run": "has the checkpoints of a run; name one of them, such as .*/run/step-00000002",
    }.items():
        with pytest.raises(CheckpointError, match=says):
            fleet.load_inference_model(tmp_path / name, nn.Linear(1, 1))
    with pytest.raises(UsageTypeError, match=r"fleet_programs.load_inference_model\(folder, executor\)"):
        fleet.load_inference_model(tmp_path, object())  # type: ignore[type-var]


def test_a_step_of_a_collective_run_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    here = fleet.Fleet()
    here.init(is_collective=True)
    try:
        model = here.distributed_model(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
        updates = here.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        model(torch.randn(8, 2)).sum().backward()
        updates.step()
        with Checkpoint(tmp_path / "run", model=model, optimizer=updates) as checkpoint:
            checkpoint.save(1)
        x = torch.randn(4, 2)
        model.eval()
        expected = scores(model, x)
    finally:
        here.shutdown()
    served_one = fleet.load_inference_model(
        tmp_path / "run" / "step-00000001", nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    )
    equal(scores(served_one, x), expected)


def test_a_gathered_state_dict_has_everything(trained: Trainer, tmp_path: Path) -> None:
    state = trained.fleet.gather_state_dict(trained.model)
    assert state["plain.weight"].shape == (len(state["plain.keys"]), 4)
    assert bool((state["plain.keys"].diff() > 0).all())
    assert state["bags.weight"] is state["slots.table_shared.weight"]
    torch.save(state, tmp_path / "model.pt")
    model = Tower()
    model.load_state_dict(torch.load(tmp_path / "model.pt"))
    equal(scores(model.eval()), evaluated(trained))
    again = fleet.gather_state_dict(model)
    assert all(torch.equal(again[name], state[name]) for name in state)
    with pytest.raises(UsageError, match="the rows of this Embedding are on the servers; fleet.load_rows"):
        trained.model.load_state_dict(state)


def test_a_model_with_rows_of_its_own_cannot_be_trained_by_servers(folder: Path) -> None:
    model = fleet.load_inference_model(folder, Tower())
    with pytest.raises(UsageError, match="holds rows of its own"), joined(model=model):
        pass


def test_gathering_has_its_limits(trained: Trainer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the tables take \d+ bytes \('plain' \d+ rows.* fleet.save_persistables"):
        trained.fleet.gather_state_dict(trained.model, max_bytes=100)
    with pytest.raises(UsageError, match="'plain' is not of the model that was given to fleet.distributed_model"):
        with joined(model=Tower()) as other:
            trained.fleet.gather_state_dict(other.model)
    with pytest.raises(NotReadyError, match=r"fleet.gather_state_dict\(\) needs the servers"):
        fleet.gather_state_dict(Tower())
    assert fleet.gather_state_dict(nn.Linear(2, 2)).keys() == {"weight", "bias"}


def test_state_dicts_with_rows_are_checked(folder: Path) -> None:
    state = fleet.load_inference_model(folder, Tower()).state_dict()
    with pytest.raises(UsageError, match="table 'plain': keys must be in ascending order, each once"):
        Tower().load_state_dict({**state, "plain.keys": state["plain.keys"].flip(0)})
    with pytest.raises(UsageError, match="table 'plain' has width 4 here"):
        Tower().load_state_dict({**state, "plain.weight": state["plain.weight"][:, :2]})
    with pytest.raises(RuntimeError, match="plain.keys"):
        Tower().load_state_dict({name: value for name, value in state.items() if name != "plain.weight"})


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What state_dicts have said."""
    for warn in (holder._warn, optimizer._warn):
        warn.cache_clear()
    yield lambda: [message for message in caplog.messages if ".state_dict() has no" in message]
    for warn in (holder._warn, optimizer._warn):
        warn.cache_clear()


def test_a_state_dict_without_rows_says_so_once(
    trained: Trainer, warned: Callable[[], list[str]], tmp_path: Path
) -> None:
    Tower().state_dict()
    trained.fleet.gather_state_dict(trained.model)
    trained.fleet.save_persistables(tmp_path / "checkpoint")
    trained.fleet.save_inference_model(tmp_path / "model")
    assert not warned()
    trained.fleet.stop_worker()
    for _ in range(2):
        assert trained.model.state_dict()["plain.weight"].shape == (0, 4)
        assert not trained.optimizer.state_dict()["state"]
    rows, state = warned()
    assert rows.startswith("model.state_dict() has no rows of tables, which are on the servers: save with fleet.save_p")
    assert state.startswith("optimizer.state_dict() has no state, which is on the servers: save it with fleet.save_p")


def test_whoever_has_all_says_nothing(folder: Path, warned: Callable[[], list[str]]) -> None:
    fleet.load_inference_model(folder, Tower()).state_dict()
    with joined(strategy=strategy("sync", dense="allreduce")) as one:
        one.train(1)
        assert one.optimizer.state_dict()["state"]
        assert not warned()
