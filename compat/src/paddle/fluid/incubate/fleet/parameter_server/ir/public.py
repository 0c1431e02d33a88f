"""What the passes know of a job; here it is in the programs themselves."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.strategy": "Mode"},
    renamed={"DistributedMode": "fleet.strategy:Mode"},
    refused={
        "CompileTimeStrategy": "fleet.distributed_optimizer(optimizer, strategy).minimize(loss) cuts the program; "
        "print(fleet.main_program) shows who holds what",
        "get_sparse_tablenames": "the lookups of a program have it: op.attr('is_distributed'), op.input('W')",
        "is_distributed_sparse_op": "use op.type == 'lookup_table' and op.attr('is_distributed')",
        "is_sparse_op": "use op.type == 'lookup_table' and op.attr('is_sparse')",
    },
)
