"""Workers who meet on server 0: each says something, and learns what the others have said or who did not come.

`meetings` knows who has come, `waiting` who waits, `meet_calls` admits callers. The queue of work is handed out here
too, each piece to one worker. Ask for `meetings.Meetings` and `pieces.PieceQueues`.
"""
