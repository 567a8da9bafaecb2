"""A dataset to look at: `report` makes one page; `tfio-store view` serves it, and the records."""
