"""Makes the Python messages from a proto file: `python proto/generate.py FOLDER [ps|serve]`, or `make proto` for all.

The compiler writes its own version into what it makes, and an older protobuf then refuses to import it. The messages
use nothing that is newer than the oldest protobuf this project allows, so that version is written there instead.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from grpc_tools import protoc

# As in pyproject.toml.
OLDEST_PROTOBUF = (6, 33, 0)


def generate(folder: Path, name: str = "ps") -> None:
    """Write NAME_pb2.py and NAME_pb2.pyi into the folder."""
    here = Path(__file__).parent
    source = str(here / f"{name}.proto")
    code = protoc.main(["protoc", f"-I{here}", f"--python_out={folder}", f"--pyi_out={folder}", source])
    if code != 0:
        raise SystemExit(code)
    module = folder / f"{name}_pb2.py"
    wanted = ",\n    ".join(map(str, OLDEST_PROTOBUF))
    text, count = re.subn(r"(?<=Domain\.PUBLIC,\n    )\d+,\n    \d+,\n    \d+(?=,\n)", wanted, module.read_text())
    if count != 1:
        raise SystemExit(f"{module}: the compiler no longer writes its version as expected; mend {__file__}")
    module.write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), *sys.argv[2:3])
