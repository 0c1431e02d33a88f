"""Raw columns become the ids that training made of them, by the schema in the folder: ask `raw`.

Alone of all rooms here it needs Fleet's readers of data, and torch with them: imported when a request has columns.
"""
