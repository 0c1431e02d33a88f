"""`python -m fleet_tools.synthetic DIR`: made-up clicks in files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from fleet.errors import FleetError
from fleet_tools.synthetic.clicks import Clicks

_ABOUT = """\
Writes made-up click logs with Criteo's columns: a label, 13 counts with gaps and 26 categories. The same command gives
the same bytes everywhere, and what is already there is not written again.

  python -m fleet_tools.synthetic data/train --samples 2000000
  python -m fleet_tools.synthetic data/test --first 2000000 --samples 200000     other samples of the same model

Read them with fleet.data.files("data/train", fleet.data.criteo(), batch_size=1000). The last line says the AUC of the
true probabilities: a model can come near it, and not beyond.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        "python -m fleet_tools.synthetic", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="where to; made if it is not there")
    parser.add_argument("--samples", type=int, default=1_000_000, metavar="N", help="how many (default: 1000000)")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first sample (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the planted model and its samples")
    parser.add_argument("--files", type=int, default=8, metavar="N", help="how many files (default: 8)")
    parser.add_argument("--format", default="tsv", metavar="tsv|parquet", help="default: tsv")
    parser.add_argument("--compression", metavar="NAME", help="gz or zst for text; snappy, zstd, ... for Parquet")
    given = parser.parse_args(arguments)
    try:
        last = given.first + given.samples
        clicks = Clicks(last, given.seed)
        began = time.monotonic()
        paths = clicks.write(given.folder, given.files, given.format, given.compression, first=given.first)
        took = time.monotonic() - began
        size = sum(path.stat().st_size for path in paths)
        files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
        print(f"{given.samples:,} samples in {files} of {given.folder}, {size / 1e6:,.1f} MB, {took:.1f} s")
        print(f"AUC of the true probabilities: {clicks.ceiling(given.first):.4f}")
    except (FleetError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
