"""`make public`: runs public scripts of PaddlePaddle, unchanged, and shows which of them learn.

FLEET_PUBLIC_SCRIPTS=folder python compat/tests/public/run.py              all that are there
FLEET_PUBLIC_SCRIPTS=folder python compat/tests/public/run.py book/word2vec paddlerec/rank
python compat/tests/public/run.py --list                                   their names
FLEET_PUBLIC_DOCUMENTATION=folder python compat/tests/public/run.py        also the examples of a documentation
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from public.judging import VARIABLE as DOCUMENTATION
from public.judging import run_documentation
from public.listing import ListError, Script, chosen, read_lists
from public.running import Outcome, run

VARIABLE = "FLEET_PUBLIC_SCRIPTS"


def main() -> int:
    args = _arguments()
    try:
        is_of_examples = args.documentation is not None and args.scripts is None
        scripts = [] if is_of_examples else chosen(read_lists(), args.names)
    except ListError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(script.name for script in scripts))
        return 0
    is_well = args.documentation is None or run_documentation(args.documentation, args.names)
    if args.documentation is not None and args.scripts is None:
        return 0 if is_well else 1
    if not args.scripts or not args.scripts.is_dir():
        given = args.scripts or "nothing"
        print(f"run.py: {VARIABLE} (make public SCRIPTS=folder) must name a folder, got {given}", file=sys.stderr)
        return 2
    outcomes, absent = _run_all(scripts, args.scripts, keep=args.keep)
    if absent and not outcomes:
        missing = absent[0].missing(args.scripts)[0]
        print(f"run.py: {args.scripts} has none of these scripts; {missing} is missing, for one", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps([_plain(one) for one in outcomes], indent=1))
    else:
        _show(outcomes, absent)
    return 0 if is_well and all(one.passed for one in outcomes) else 1


def _run_all(scripts: list[Script], folder: Path, *, keep: bool) -> tuple[list[Outcome], list[Script]]:
    """What became of the scripts whose files are there, and those whose files are not."""
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    outcomes, absent = [], []
    for script in scripts:
        if script.missing(folder):
            absent.append(script)
            continue
        scratch = Path(tempfile.mkdtemp(prefix="fleet-public-"))
        with console.status(f"{script.name} ..."):
            outcome = run(script, folder, scratch)
        outcomes.append(outcome)
        if keep:
            console.print(f"{script.name}: files and output.txt in {scratch}", markup=False, highlight=False)
        else:
            shutil.rmtree(scratch)
        if outcome.problem:
            console.print(outcome.problem, style="red", markup=False, highlight=False, soft_wrap=True)
    return outcomes, absent


def _show(outcomes: list[Outcome], absent: list[Script]) -> None:
    table = Table("script", "version", "result", box=None)
    for title in ("first", "last", "seconds"):
        table.add_column(title, justify="right")
    for one in outcomes:
        ends = [f"{one.values[0]:.5g}", f"{one.values[-1]:.5g}"] if one.values else ["", ""]
        result = f"[green]{one.script.expect}[/green]" if one.passed else "[red]failed[/red]"
        table.add_row(one.script.name, one.script.version, result, *ends, f"{one.seconds:.1f}")
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"{sum(one.passed for one in outcomes)} of {len(outcomes)} scripts did what was expected of them")
    if absent:
        console.print(f"{len(absent)} more are listed and not there, {absent[0].name} for one", highlight=False)


def _plain(outcome: Outcome) -> dict[str, object]:
    script = outcome.script
    return {
        "name": script.name,
        "version": script.version,
        "source": script.source,
        "passed": outcome.passed,
        "problem": outcome.problem,
        "values": list(outcome.values),
        "seconds": round(outcome.seconds, 2),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run public scripts of PaddlePaddle and judge what they print.")
    parser.add_argument("names", nargs="*", help="of scripts, or how they begin up to a slash; all where none is given")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--json", action="store_true", help="print JSON with every value instead of a table")
    parser.add_argument("--keep", action="store_true", help="leave each script's copy and output.txt, and say where")
    parser.add_argument(
        "--scripts",
        type=Path,
        default=Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None,
        help=f"the folder of scripts (${VARIABLE})",
    )
    parser.add_argument(
        "--documentation",
        type=Path,
        default=Path(os.environ[DOCUMENTATION]) if os.environ.get(DOCUMENTATION) else None,
        help=f"a folder with the sources or the .rst files of PaddlePaddle's documentation (${DOCUMENTATION})",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
