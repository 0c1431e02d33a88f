"""What hangs on the steps of a worker: the contract, and the parts that count.

Ask `contract.StepPart` for the moments at which a part is called, and `meters` for what a step's parts have taken.
"""
