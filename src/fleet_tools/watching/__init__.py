"""What processes and fleetrun have written of a job, shown: on a page, in the terminal, to Prometheus and TensorBoard.

`picture` reads all of it. Ask `watch_ports` for the ports of a running job, whose `door` answers whom `access` admits;
`board` writes curves, `terminal` is `fleetrun top`.
"""
