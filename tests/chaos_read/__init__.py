"""Reading under fire: faults injected at random into every store."""
