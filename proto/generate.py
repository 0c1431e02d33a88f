"""Makes the Python messages from ps.proto: `python proto/generate.py FOLDER`, or `make proto`.

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


def generate(folder: Path) -> None:
    """Write ps_pb2.py and ps_pb2.pyi into the folder."""
    here = Path(__file__).parent
    code = protoc.main(["protoc", f"-I{here}", f"--python_out={folder}", f"--pyi_out={folder}", str(here / "ps.proto")])
    if code != 0:
        raise SystemExit(code)
    module = folder / "ps_pb2.py"
    wanted = ",\n    ".join(map(str, OLDEST_PROTOBUF))
    text, count = re.subn(r"(?<=Domain\.PUBLIC,\n    )\d+,\n    \d+,\n    \d+(?=,\n)", wanted, module.read_text())
    if count != 1:
        raise SystemExit(f"{module}: the compiler no longer writes its version as expected; mend {__file__}")
    module.write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
