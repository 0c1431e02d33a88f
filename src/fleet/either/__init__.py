"""What scripts call the same whether they train tensors or programs: which is meant follows from what it is given.

    optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())    a torch optimizer, over `fleet.imperative`
    optimizer.SGD(learning_rate=0.1).minimize(loss)                    operators, over `fleet.static`

Where nothing tells, `mode` does: `enable_static()` and `disable_static()`.
"""

from fleet.static.methods import method_of
from fleet.static.variable import provide_methods

provide_methods(method_of)
