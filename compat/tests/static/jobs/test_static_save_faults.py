"""What programs save, under fire: killed at every step of a save, and at random; one save or the other, never both."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import python

# Generation N of three variables, each full of N; a fork for each save, so that nothing is imported twice.
SAVER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from fleet_programs.io.files import Replacing, read_text
from fleet_programs.io import load_program_state

folder, form = Path(sys.argv[1]), sys.argv[2]
NAMES = ("a", "b", "c")

def save(number):
    with Replacing(folder) as replacing:
        values = {name: torch.full((4000,), float(number)) for name in NAMES}
        replacing.tensors(values, None if form == "each" else "all")
        replacing.text("__model__", str(number))

def generation():
    found = load_program_state(folder if form == "each" else folder / "all")
    numbers = {one for name in NAMES for one in set(found[name].tolist())} | {float(read_text(folder, "__model__"))}
    assert len(numbers) == 1, numbers
    return numbers.pop()

def child(work):
    if not (pid := os.fork()):
        work()
        os._exit(0)
    return pid

def die_before(step, number):
    left = [step]
    def counted(call):
        def wrapper(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)
        return wrapper
    for name in ("replace", "fsync", "write", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    save(number)

save(0)
number, step, kinds = 0, 0, set()
while True:
    step += 1
    _, status = os.waitpid(child(lambda: die_before(step, number + 1)), 0)
    found = generation()
    kinds.add(found - number)
    assert found in (number, number + 1), (found, number, step)
    number = int(found)
    if status == 0:
        break
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
assert kinds == {0.0, 1.0} and step > 5, (kinds, step)

def for_ever():
    for one in range(number + 1, 10**9):
        save(one)

draw = random.Random(3)
for _ in range(6):
    pid = child(for_ever)
    time.sleep(draw.uniform(0.001, 0.05))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found = generation()
    assert found >= number
    number = int(found)
save(number + 1)
assert generation() == number + 1
print("kills by step", step - 1, "generations", number)
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("form", ["each", "one"])
def test_a_save_that_is_killed_leaves_one_generation(form: str, tmp_path: Path) -> None:
    assert "kills by step" in python("-c", SAVER, tmp_path / "saved", form, cwd=tmp_path, warm=True)
