"""Writers that are killed, and writers whose requests fail: what is left must be whole."""
