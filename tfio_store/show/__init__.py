"""A dataset to look at: `report` makes one page."""
