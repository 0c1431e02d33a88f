"""What a job declares: tables, rules, first values, dense parameters, and which server holds which of them.

All of it is plain frozen data that workers send and servers compare; nothing here opens a connection or holds a row.
The contract is `spec`, with `named_spec` and `dense_spec`; users call the constructors in `rules`,
`initializers` and `entries`.
"""
