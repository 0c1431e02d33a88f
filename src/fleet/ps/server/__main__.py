"""`python -m fleet.ps.server`."""

from fleet.ps.server.process import main

main()
