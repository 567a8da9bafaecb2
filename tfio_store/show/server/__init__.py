"""A dataset as pages on this machine: what `tfio-store view` serves."""
