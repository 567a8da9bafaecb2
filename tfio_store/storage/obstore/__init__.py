"""The same stores, their ranges read through obstore."""
