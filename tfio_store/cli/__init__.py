"""The command `tfio-store`. It parses what is typed, calls a function of `tools`, and prints."""
