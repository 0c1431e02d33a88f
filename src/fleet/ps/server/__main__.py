"""`python -m fleet.ps.server`."""

from __future__ import annotations

from fleet.ps.server.process import main

main()
