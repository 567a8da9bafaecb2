"""A dataset from records, whole or not at all."""
