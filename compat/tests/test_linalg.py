"""Linear algebra of tensors and of programs is numpy's; Fourier transforms are too."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import mode

paddle: Any = importlib.import_module("paddle")
linalg: Any = importlib.import_module("paddle.linalg")
fft: Any = importlib.import_module("paddle.fft")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 3)) + 2 * np.eye(3)
TALL = RNG.standard_normal((4, 3))
EVEN = X + X.transpose(0, 2, 1)
SURE = X @ X.transpose(0, 2, 1)
B = RNG.standard_normal((2, 3, 2))
LOW_RANK = np.outer(np.arange(1.0, 4.0), np.arange(1.0, 5.0))


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        yield
    mode.enable_static()


def on_tensors(call: Any, *given: Any) -> list[Any]:
    with mode.guard():
        made = call(*[paddle.to_tensor(one) for one in given])
        return [one.numpy() for one in (made if isinstance(made, tuple) else (made,))]


def on_programs(call: Any, *given: Any) -> list[Any]:
    mode.enable_static()
    main = static.Program()
    with static.program_guard(main, static.Program()):
        return _run(main, call, given)


def _run(main: Any, call: Any, given: Any) -> list[Any]:
    several = [static.data(f"x{place}", list(one.shape), str(one.dtype)) for place, one in enumerate(given)]
    made = call(*several)
    outs = list(made) if isinstance(made, tuple) else [made]
    feed = {one.name: value for one, value in zip(several, given, strict=True)}
    found: list[Any] = static.Executor(static.CPUPlace()).run(main, feed=feed, fetch_list=outs)
    assert [list(one.shape) for one in outs] == [list(one.shape) for one in found], "shapes are known before"
    return found


BOTH = pytest.mark.parametrize("run", [on_tensors, on_programs])
CASES: dict[str, tuple[Any, list[Any], Any]] = {
    "det": (linalg.det, [X], np.linalg.det(X)),
    "slogdet": (linalg.slogdet, [-X], np.stack(np.linalg.slogdet(-X))),
    "matrix_power": (lambda x: linalg.matrix_power(x, 3), [X], np.linalg.matrix_power(X, 3)),
    "matrix_power below 0": (lambda x: linalg.matrix_power(x, -2), [X], np.linalg.matrix_power(X, -2)),
    "matrix_rank": (linalg.matrix_rank, [LOW_RANK], 1),
    "matrix_rank tol": (lambda x: linalg.matrix_rank(x, 1.5), [np.diag([3.0, 2.0, 1.0])], 2),
    "pinv": (linalg.pinv, [TALL], np.linalg.pinv(TALL)),
    "pinv rcond": (lambda x: linalg.pinv(x, 0.5), [np.diag([3.0, 2.0, 1.0])], np.diag([1 / 3, 1 / 2, 0])),
    "cond": (linalg.cond, [X], np.linalg.cond(X)),
    "cond fro": (lambda x: linalg.cond(x, "fro"), [X], np.linalg.cond(X, "fro")),
    "cond inf": (lambda x: linalg.cond(x, float("inf")), [X], np.linalg.cond(X, np.inf)),
    "cond -2": (lambda x: linalg.cond(x, -2), [X], np.linalg.cond(X, -2)),
    "solve": (linalg.solve, [X, B], np.linalg.solve(X, B)),
    "triangular_solve": (linalg.triangular_solve, [np.triu(X), B], np.linalg.solve(np.triu(X), B)),
    "triangular_solve transposed": (
        lambda x, y: linalg.triangular_solve(x, y, upper=False, transpose=True),
        [np.tril(X), B],
        np.linalg.solve(np.tril(X).transpose(0, 2, 1), B),
    ),
    "cholesky_solve": (linalg.cholesky_solve, [B, np.linalg.cholesky(SURE)], np.linalg.solve(SURE, B)),
    "eigvalsh": (linalg.eigvalsh, [EVEN], np.linalg.eigvalsh(EVEN)),
    "eigvalsh upper": (lambda x: linalg.eigvalsh(x, "U"), [np.triu(EVEN)], np.linalg.eigvalsh(EVEN)),
    "singular values": (lambda x: linalg.svd(x)[1], [TALL], np.linalg.svd(TALL)[1]),
    "multi_dot": (lambda x, y: linalg.multi_dot([x, y]), [TALL, TALL.T], TALL @ TALL.T),
    "inv": (linalg.inv, [X], np.linalg.inv(X)),
}


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_functions_are_numpys(run: Any, name: str) -> None:
    call, given, wanted = CASES[name]
    if run is on_programs and name == "multi_dot":
        with pytest.raises(NotSupportedError, match="multi_dot takes tensors, and is not built for variables"):
            run(call, *given)
        return
    (found,) = run(call, *given)
    np.testing.assert_allclose(found.reshape(np.shape(wanted)), wanted, rtol=1e-6, atol=1e-9)


@BOTH
@pytest.mark.parametrize("full", [False, True])
def test_factors_multiply_to_the_matrix(run: Any, full: bool) -> None:
    u, s, vh = run(lambda x: linalg.svd(x, full), TALL)
    assert u.shape == ((4, 4) if full else (4, 3))
    np.testing.assert_allclose(u[:, :3] * s @ vh, TALL, atol=1e-9)
    q, r = run(lambda x: linalg.qr(x, "complete" if full else "reduced"), TALL)
    assert q.shape == ((4, 4) if full else (4, 3))
    np.testing.assert_allclose(q @ r, TALL, atol=1e-9)
    np.testing.assert_allclose(q.T @ q, np.eye(len(q.T)), atol=1e-9)
    (alone,) = run(lambda x: linalg.qr(x, "r"), TALL)
    np.testing.assert_allclose(np.abs(alone), np.abs(r[:3]), atol=1e-9)
    values, vectors = run(linalg.eigh, EVEN)
    np.testing.assert_allclose(vectors * values[:, None, :] @ vectors.transpose(0, 2, 1), EVEN, atol=1e-9)


def test_complex_eigenvalues_of_tensors() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    values, vectors = on_tensors(linalg.eig, turn)
    np.testing.assert_allclose(turn @ vectors, vectors * values, atol=1e-9)
    np.testing.assert_allclose(sorted(on_tensors(linalg.eigvals, turn)[0].imag), [-1, 1])
    mode.enable_static()
    with pytest.raises(NotSupportedError, match="eigvals takes tensors"):
        linalg.eigvals(static.data("x", [2, 2]))


def test_gradients_of_tensors_and_programs_are_those_of_the_formulas() -> None:
    inverse = np.linalg.inv(X).transpose(0, 2, 1)
    with mode.guard():
        x = paddle.to_tensor(X, stop_gradient=False)
        linalg.slogdet(x)[1].sum().backward()
        np.testing.assert_allclose(x.gradient(), inverse, rtol=1e-6)
    mode.enable_static()
    x = static.data("x", [2, 3, 3], "float64")
    x.stop_gradient = False
    loss = static.layers.reduce_sum(linalg.slogdet(x)[1])
    slope: Any = static.gradients(loss, x)[0]
    y = static.data("y", [4, 3], "float64")
    y.stop_gradient = False
    other: Any = static.gradients(static.layers.reduce_sum(linalg.svd(y)[1]), y)[0]  # the other two have no gradient
    feed = {"x": X, "y": TALL}
    found, of_values = static.Executor(static.CPUPlace()).run(feed=feed, fetch_list=[slope, other])
    np.testing.assert_allclose(found, inverse, rtol=1e-6)
    u, _, vh = np.linalg.svd(TALL, full_matrices=False)
    np.testing.assert_allclose(of_values, u @ vh, rtol=1e-6)


SIGNAL = RNG.standard_normal((3, 4, 6))
WAVES = RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))
TRANSFORMS: dict[str, tuple[Any, Any, Any]] = {
    "fft": (lambda x: fft.fft(x, 5, 0, "ortho"), SIGNAL, np.fft.fft(SIGNAL, 5, 0, "ortho")),
    "ifft": (fft.ifft, WAVES, np.fft.ifft(WAVES)),
    "rfft": (lambda x: fft.rfft(x, axis=1), SIGNAL, np.fft.rfft(SIGNAL, axis=1)),
    "irfft": (lambda x: fft.irfft(x, n=7), WAVES, np.fft.irfft(WAVES, 7)),
    "hfft": (lambda x: fft.hfft(x, norm="forward"), WAVES, np.fft.hfft(WAVES, norm="forward")),
    "ihfft": (fft.ihfft, SIGNAL, np.fft.ihfft(SIGNAL)),
    "fft2": (lambda x: fft.fft2(x, axes=(0, 1)), SIGNAL, np.fft.fft2(SIGNAL, axes=(0, 1))),
    "ifft2": (fft.ifft2, WAVES, np.fft.ifft2(WAVES)),
    "rfft2": (fft.rfft2, SIGNAL, np.fft.rfft2(SIGNAL)),
    "irfft2": (lambda x: fft.irfft2(x, [3, 5]), WAVES, np.fft.irfft2(WAVES, [3, 5])),
    "fftn": (fft.fftn, SIGNAL, np.fft.fftn(SIGNAL)),
    "ifftn": (fft.ifftn, WAVES, np.fft.ifftn(WAVES)),
    "rfftn": (fft.rfftn, SIGNAL, np.fft.rfftn(SIGNAL)),
    "irfftn": (lambda x: fft.irfftn(x, [3, 5]), WAVES, np.fft.irfftn(WAVES, [3, 5], axes=(0, 1))),
    "ihfft2": (fft.ihfft2, SIGNAL, np.fft.ifft(np.fft.ihfft(SIGNAL), axis=-2)),
    "hfft2": (fft.hfft2, WAVES, np.fft.hfft(np.fft.fft(WAVES, axis=-2))),
    "hfftn": (fft.hfftn, WAVES, np.fft.hfft(np.fft.fft(WAVES, axis=-2))),
    "ihfftn": (fft.ihfftn, SIGNAL[0], np.fft.ifft(np.fft.ihfft(SIGNAL[0]), axis=-2)),
    "fftshift": (lambda x: fft.fftshift(x, 1), SIGNAL, np.fft.fftshift(SIGNAL, 1)),
    "ifftshift": (fft.ifftshift, WAVES, np.fft.ifftshift(WAVES)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_numpys(name: str) -> None:
    call, given, wanted = TRANSFORMS[name]
    (found,) = on_tensors(call, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_frequencies() -> None:
    with mode.guard():
        np.testing.assert_allclose(fft.fftfreq(5, 0.5, "float64").numpy(), np.fft.fftfreq(5, 0.5))
        np.testing.assert_allclose(fft.rfftfreq(6, 2.0).numpy(), np.fft.rfftfreq(6, 2.0), rtol=1e-6)
    assert {*TRANSFORMS, "fftfreq", "rfftfreq"} == set(importlib.import_module("fleet_paddle.fft").__all__)
    mode.enable_static()
    with pytest.raises(NotSupportedError, match="fft.rfft takes tensors"):
        fft.rfft(static.data("x", [4]))


def test_mistakes_are_named() -> None:
    for call, text in (
        (lambda x: linalg.qr(x, "full"), "qr: mode must be 'reduced', 'complete' or 'r', got 'full'"),
        (lambda x: linalg.eigh(x, "upper"), "eigh: UPLO must be 'L' or 'U', got 'upper'"),
        (lambda x: linalg.cond(x, 3), "cond: p must be None"),
        (lambda x: linalg.matrix_power(x, 0.5), "matrix_power: n must be a whole number, got 0.5"),
    ):
        with pytest.raises(UsageError, match=text):
            on_tensors(call, X)
