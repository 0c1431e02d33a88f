"""A model of how servers are changed, checked in every order of events, and the code's own transitions beside it.

`state` is what there is, `workers`, `rounds`, `servers` and `copies` what can happen, `system` what must hold;
`checker` goes through all of it. `real` drives services with journals, and `compare` has them follow the model.
`sizes` are the cases.
"""
