"""Control-C at every line of the package: whatever was under way ends."""
