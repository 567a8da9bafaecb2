"""Ranges of remote objects kept on a local disk, from one epoch to the next.

`local_cache.py` is what a user asks for, `folder.py` the files of it, `entry.py` the bytes of a
file, `spans.py` which ranges there are, `room.py` how much there may be, and `store.py` a `Store`
that reads through all that.
"""
