"""Datasets as columns: schemas, tables, partitions for engines, formats of files."""
