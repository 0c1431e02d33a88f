"""`fleetrun forget FILE --folder F`: what lies on disks forgets ids, while no job uses it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fleet.errors import UsageError
from fleet_tools.forgetting.cleaning import Cleaner
from fleet_tools.forgetting.ids import keys_of

EPILOG = """
\b
Examples:
  fleetrun forget requests.txt --folder /data/checkpoints            checkpoints, and the increments on them
  fleetrun forget requests.txt --folder /data/model --table users    of one table
  fleetrun forget requests.txt --folder /data/kept --verify          searches only, a running job's folder too

The exit code is 0 if nothing is found in the end, and 1 if something is. In a running job call fleet.forget(); the page
docs/forget.md says what is searched, and what cannot be.
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--folder", "folders", metavar="F", multiple=True, help="What was saved, with all below it; repeat it.")
@click.option("--table", "tables", metavar="NAME", multiple=True, help="Only this table; repeat it.  [default: all]")
@click.option("--verify", is_flag=True, help="Search, and change nothing.")
@click.argument("file", metavar="FILE")
def forget(folders: tuple[str, ...], tables: tuple[str, ...], verify: bool, file: str) -> int:
    """Remove the rows of the ids in FILE, one in each line, from what was saved; then search for them."""
    if not folders:
        raise UsageError("fleetrun forget needs to know where: fleetrun forget FILE --folder F")
    if missing := [folder for folder in folders if not Path(folder).is_dir()]:
        raise UsageError(f"{missing[0]} is no folder; give what was saved or published")
    began_at = time.monotonic()
    cleaner = Cleaner(keys_of(file), tables or None, folders)
    if not verify:
        cleaner.check()
        cleaner.rewrite()
    report = cleaner.search()
    report.seconds = time.monotonic() - began_at
    print(report)
    return 0 if report.is_clean else 1
