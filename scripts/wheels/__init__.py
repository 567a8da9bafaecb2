"""``make wheels``: a wheel for every Python that is found and every platform that Zig knows.

    build ─ repair ─ check ─ try in an empty environment ─ a table of what ran where

Zig compiles for a chosen glibc, for musl and for other processors on any machine. What can't run
here is built and checked, and the table says so.
"""
