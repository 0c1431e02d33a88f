"""What is served: tables of a folder as mapped files, and the changes since, of one moment for each request.

`saved` reads what was saved, `bases` makes the mapped files of it, once; ask `model` for rows.
"""
