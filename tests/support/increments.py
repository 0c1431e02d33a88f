"""What a save and the increments on it hold, by key, whatever servers have written it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.checkpoint import TableLoad, read_chain
from fleet.ps.held.holdings import make_table
from fleet.ps.job.spec import JobSpec
from support.fake_table import in_order, joined


def tables_in(folder: Path, num_servers: int = 1) -> dict[str, dict[str, Any]]:
    """Every array of every table, in the order of keys, as so many servers would load it."""
    chain = read_chain(folder)
    found = {}
    for spec in JobSpec.from_json(json.dumps(chain[-1].manifest.job)).tables:
        parts = []
        for server in range(num_servers):
            table = make_table(replace(spec, max_bytes=0))  # or fewer servers would have room for fewer rows
            load = TableLoad(table, chain, spec.name, server, num_servers, dtype=spec.dtype, rule=spec.rule.name)
            load.check()
            assert load.load() == len(table)
            parts.append(table.export(0, table.num_shards))
        found[spec.name] = {name: array.tobytes() for name, array in in_order(joined(parts)).items()}
    return found
