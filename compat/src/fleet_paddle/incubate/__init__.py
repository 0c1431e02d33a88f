"""`paddle.incubate`: averages around an optimizer, and functions of segments and graphs."""
