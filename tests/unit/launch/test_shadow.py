"""A file beside a script that Python would import for Fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.launch.planning.script import refuse_shadows


@pytest.mark.parametrize("name", ["fleet", "torch"])
def test_a_file_with_the_name_of_a_package(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").touch()
    refuse_shadows(tmp_path)
    (tmp_path / f"{name}.py").touch()
    with pytest.raises(UsageError, match=rf"^\S*/{name}\.py hides the package {name} from the scripts beside it"):
        refuse_shadows(tmp_path)
