"""`paddle.Model`: what it trains is what a loop trains; what is called meanwhile; files; summaries."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset

import fleet_programs as static
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle.hapi.callbacks import Callback
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.imperative import state

paddle: Any = import_module("paddle")
callbacks, nn = paddle.callbacks, paddle.nn


class Line(Dataset[Any]):
    """y = 2 a - b, in order."""

    def __init__(self, count: int = 32) -> None:
        self.x = np.random.default_rng(0).standard_normal((count, 2)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> Any:
        return self.x[place], self.x[place] @ np.array([[2.0], [-1.0]], np.float32)


class Classes(Line):
    def __getitem__(self, place: int) -> Any:
        return self.x[place], np.array([self.x[place, 0] > 0], np.int64)


def _net(outputs: int = 1) -> Any:
    paddle.seed(1)
    return nn.Linear(2, outputs)


def _model(net: Any, *metrics: Any, **more: Any) -> paddle.Model:
    model = paddle.Model(net)
    loss = nn.CrossEntropyLoss() if metrics else nn.MSELoss()
    model.prepare(paddle.optimizer.SGD(0.1, parameters=model.parameters()), loss, list(metrics), **more)
    return model


def test_fit_is_the_loop() -> None:
    fitted, by_hand, data = _net(), _net(), Line()
    _model(fitted).fit(data, batch_size=8, epochs=2, shuffle=False, verbose=0)
    sgd = paddle.optimizer.SGD(0.1, parameters=by_hand.parameters())
    for _ in range(2):
        for x, y in paddle.io.DataLoader(data, batch_size=8):
            nn.MSELoss()(by_hand(x), y).backward()
            sgd.step()
            sgd.clear_grad()
    assert np.array_equal(fitted.weight.numpy(), by_hand.weight.numpy())


def test_accumulated_gradients_are_those_of_a_larger_batch() -> None:
    fitted, whole, data = _net(), _net(), Line(16)
    _model(fitted).fit(data, batch_size=4, shuffle=False, verbose=0, accumulate_grad_batches=2)
    half = paddle.Model(whole)
    half.prepare(paddle.optimizer.SGD(0.1, parameters=half.parameters()), lambda p, y: 2 * nn.MSELoss()(p, y))
    half.fit(data, batch_size=8, shuffle=False, verbose=0)
    assert np.allclose(fitted.weight.numpy(), whole.weight.numpy(), atol=1e-6)


def test_it_prints_steps_and_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    model = _model(_net(2), paddle.metric.Accuracy())
    model.fit(Classes(), Classes(), batch_size=8, epochs=2, log_freq=2)
    text = capsys.readouterr().out
    assert "Epoch 2/2" in text
    assert "step 2/4 - loss: " in text
    assert " - acc: " in text
    assert text.count("Eval samples: 32") == 2
    result = model.evaluate(Classes(), batch_size=8, verbose=0)
    assert set(result) == {"loss", "acc"}
    right = model.predict(Classes(), batch_size=8, stack_outputs=True, verbose=0)[0].argmax(1) == (
        Classes().x[:, 0] > 0
    )
    assert result["acc"] == pytest.approx(right.mean())


def test_a_logger_may_print_more(capsys: pytest.CaptureFixture[str]) -> None:
    class Counting(callbacks.ProgBarLogger):  # type: ignore[name-defined, misc]
        def on_train_begin(self, logs: Any = None) -> None:
            super().on_train_begin(logs)
            self.train_metrics = ["loss", "ten times"]

        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            logs["ten times"] = 10 * step
            super().on_train_batch_end(step, logs)

    _model(_net(2), paddle.metric.Accuracy()).fit(Classes(), Classes(), batch_size=8, callbacks=Counting(2))
    trained, evaluated = capsys.readouterr().out.split("Eval begin...")
    assert " - ten times: 10.0000 - " in trained
    assert " - ten times: 30.0000 - " in trained
    assert " - acc: " not in trained
    assert " - acc: " in evaluated
    assert "ten times" not in evaluated


def test_batches_one_by_one() -> None:
    model = _model(_net(2), paddle.metric.Accuracy())
    x, y = Classes().x[:4], (Classes().x[:4, :1] > 0).astype(np.int64)
    (loss,), (share,) = model.eval_batch([x], [y])
    before = model.network.weight.numpy()
    assert model.train_batch([x], [y], update=False)[0][0] == pytest.approx(loss)
    assert np.array_equal(before, model.network.weight.numpy())
    model.train_batch([x], [y])
    assert not np.array_equal(before, model.network.weight.numpy())
    assert 0 <= share <= 1
    assert model.predict_batch([x])[0].shape == (4, 2)


class Told(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.moments: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            object.__getattribute__(self, "moments").append(name.removeprefix("on_"))
        return object.__getattribute__(self, name)


def test_every_moment_is_told_in_order() -> None:
    told = Told()
    _model(_net()).fit(Line(2), Line(1), epochs=1, verbose=0, callbacks=told)
    batch = ["train_batch_begin", "train_batch_end"]
    evaluated = ["eval_begin", "eval_batch_begin", "eval_batch_end", "eval_end"]
    assert told.moments == ["train_begin", "epoch_begin", *batch * 2, "epoch_end", *evaluated, "train_end"]
    assert told.params["steps"] == 2
    assert told.params["metrics"] == ["loss"]


def test_a_schedule_is_stepped_after_every_batch_or_epoch() -> None:
    for callback, steps in ((None, 8), (callbacks.LRScheduler(by_step=False, by_epoch=True), 2)):
        rate = paddle.optimizer.lr.StepDecay(0.1, 100)
        model = paddle.Model(_net())
        model.prepare(paddle.optimizer.SGD(rate, parameters=model.parameters()), nn.MSELoss())
        model.fit(Line(), batch_size=8, epochs=2, verbose=0, callbacks=callback)
        assert rate.last_epoch == steps
    with pytest.raises(UsageError, match="one of by_step and by_epoch must be True"):
        callbacks.LRScheduler(True, True)


def test_it_stops_early_and_keeps_the_best(tmp_path: Path) -> None:
    model = paddle.Model(_net())
    model.prepare(paddle.optimizer.SGD(0.0, parameters=model.parameters()), nn.MSELoss())
    told = Told()
    stop = callbacks.EarlyStopping("loss", patience=2, verbose=0)
    model.fit(Line(), Line(), batch_size=8, epochs=9, verbose=0, save_dir=str(tmp_path), callbacks=[told, stop])
    assert told.moments.count("epoch_begin") == 3
    assert (tmp_path / "best_model.pdparams").is_file()
    with pytest.raises(UsageError, match="there is no 'acc' to monitor; evaluated is loss"):
        model.fit(Line(), Line(), verbose=0, callbacks=callbacks.EarlyStopping("acc"))


def test_the_rate_falls_on_a_plateau() -> None:
    model = paddle.Model(_net())
    model.prepare(paddle.optimizer.SGD(1e-9, parameters=model.parameters()), nn.MSELoss())
    plateau = callbacks.ReduceLROnPlateau(patience=1, factor=0.5, verbose=0)
    model.fit(Line(), Line(), batch_size=8, epochs=3, verbose=0, callbacks=plateau)
    assert model._optimizer.get_lr() == pytest.approx(0.25e-9)


def test_checkpoints_go_on(tmp_path: Path) -> None:
    data, whole = Line(), _net()
    model = _model(whole)
    model.fit(data, batch_size=8, epochs=1, shuffle=False, verbose=0, save_dir=str(tmp_path))
    assert {one.name for one in tmp_path.iterdir()} == {
        *("0.pdparams", "0.pdopt", "final.pdparams", "final.pdopt"),
    }
    other = _model(nn.Linear(2, 1))
    other.load(str(tmp_path / "final"))
    for one in (model, other):
        one.fit(data, batch_size=8, shuffle=False, verbose=0)
    assert np.array_equal(whole.weight.numpy(), other.network.weight.numpy())
    wide = _model(nn.Linear(2, 3))
    with pytest.raises(UsageError, match="final.pdparams has no 'weight' of its shape"):
        wide.load(str(tmp_path / "final"))
    with pytest.warns(UserWarning, match="left as they are: weight, bias"):
        wide.load(str(tmp_path / "final"), skip_mismatch=True)


def test_a_few_batches_are_enough() -> None:
    told = Told()
    _model(_net()).fit(Line(), batch_size=8, epochs=3, verbose=0, num_iters=5, callbacks=told)
    assert told.moments.count("train_batch_end") == 5


def test_mixed_precision_learns() -> None:
    model = _model(_net(), amp_configs="O1")
    first = model.evaluate(Line(), batch_size=32, verbose=0)["loss"][0]
    model.fit(Line(), batch_size=8, epochs=3, verbose=0)
    assert model.evaluate(Line(), batch_size=32, verbose=0)["loss"][0] < first / 2


def test_what_is_missing_is_said() -> None:
    with pytest.raises(NotReadyError, match=r"call prepare\(\) before"):
        paddle.Model(_net()).fit(Line())
    model = paddle.Model(_net())
    model.prepare()
    with pytest.raises(NotReadyError, match="needs an optimizer and a loss"):
        model.fit(Line(), verbose=0)
    with pytest.raises(UsageError, match="VisualDL needs visualdl, which is not installed"):
        callbacks.VisualDL("logs")


def test_summary_and_flops_of_lenet(capsys: pytest.CaptureFixture[str]) -> None:
    lenet = paddle.vision.models.LeNet()
    assert paddle.summary(lenet, (1, 1, 28, 28)) == {"total_params": 61610, "trainable_params": 61610}
    text = capsys.readouterr().out
    assert "[1, 16, 5, 5]" in text
    assert "48,120" in text
    assert paddle.flops(lenet, [1, 1, 28, 28]) == 347560  # the figure of PaddlePaddle's own page
    spec = paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")
    assert paddle.Model(lenet, spec).summary()["total_params"] == 61610


@pytest.fixture
def programs() -> Iterator[None]:
    with (
        state.guard(),
        static.program_guard(static.Program(), static.Program()),
        static.scope_guard(static.Scope()),
        static.unique_name.guard(),
    ):
        paddle.enable_static()
        yield


@pytest.mark.usefixtures("programs")
def test_programs_fit_as_tensors_do(tmp_path: Path) -> None:
    first = {"weight": np.array([[0.1, 0.2], [0.3, -0.4]], np.float32), "bias": np.zeros(2, np.float32)}
    found = []
    for is_static in (True, False):
        paddle.enable_static() if is_static else paddle.disable_static()
        net = nn.Linear(2, 2)
        specs = InputSpec([None, 2], "float32", "x"), InputSpec([None, 1], "int64", "label")
        model = paddle.Model(net, *specs)
        sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.prepare(sgd, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        net.set_state_dict(first)
        model.fit(Classes(), batch_size=8, epochs=2, shuffle=False, verbose=0, save_dir=str(tmp_path / str(is_static)))
        result = model.evaluate(Classes(), batch_size=8, verbose=0)
        rows = model.predict(Classes(), batch_size=8, stack_outputs=True, verbose=0)[0]
        found.append((result["loss"][0], result["acc"], rows))
        if is_static:
            net.set_state_dict(first)
            for option in ("skip_mismatch", "reset_optimizer"):
                with pytest.raises(NotSupportedError, match=f"leave .*{option}"):
                    model.load(str(tmp_path / "True" / "final"), **{option: True})
            model.load(str(tmp_path / "True" / "final"))
            assert np.array_equal(model.predict(Classes(), batch_size=8, stack_outputs=True, verbose=0)[0], rows)
    for one, other in zip(*found, strict=True):
        assert np.allclose(one, other, atol=1e-6)


@pytest.mark.usefixtures("programs")
def test_programs_need_to_know_what_they_are_fed() -> None:
    with pytest.raises(UsageError, match=r"after enable_static\(\) give inputs and labels"):
        paddle.Model(nn.Linear(2, 1)).prepare()


@pytest.mark.parametrize("name", ["eval_freq", "accumulate_grad_batches"])
def test_fit_does_nothing_every_zeroth_time(name: str) -> None:
    net = nn.Linear(2, 2)
    model = paddle.Model(net)
    model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), nn.CrossEntropyLoss())
    with pytest.raises(UsageError, match=f"{name} must be >= 1, got 0"):
        model.fit(Classes(), verbose=0, **{name: 0})
