"""What the columns of a file mean, and records by column without an object for any of them.

Ask for `schema.Schema`, `batch.Batch` and `records.Records`.
"""
