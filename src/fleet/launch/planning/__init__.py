"""From options to a plan: `find_needs` says what to hold and where to meet, `make_plan` what to start; it is pure.

Ask `mistakes.refuse_mistakes` first, `machine.look` for what a plan must know of a machine, `make` for the rest.
The contract is `layout` (needs, ports, layouts) and `plan` (processes).
"""
