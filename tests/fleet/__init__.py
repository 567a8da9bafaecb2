"""A fleet of hosts that read one dataset, on a clock that nobody waits for."""
