"""The records of a dataset, in order, shuffled, or by number."""
