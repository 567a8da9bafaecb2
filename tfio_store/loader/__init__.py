"""What training loops have in common: decoded records of a reader or a mixture, in batches."""
