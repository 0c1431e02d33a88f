"""`python -m fleet_serve`, the same as `fleet-serve`."""

from fleet_serve.command import main

main()
