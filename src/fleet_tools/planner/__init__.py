"""From what a model needs and what machines have to a plan: what goes where, in which mode, with which strategy.

Plain data in, plain data out, without torch: `facts` is what is known, `plan` the answer, `show` what a person reads.
`fleet_tools.looking` looks at a model and makes the facts; `fleetrun plan` and `fleet.plan` join the two.
"""
