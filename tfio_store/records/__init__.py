"""Bytes to records and back, without I/O."""
