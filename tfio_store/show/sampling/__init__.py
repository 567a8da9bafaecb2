"""Which records stand for a dataset, and where they lie."""
