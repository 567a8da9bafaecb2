"""Compressed files of others: where an inflater can begin in them, and the index that says so."""
