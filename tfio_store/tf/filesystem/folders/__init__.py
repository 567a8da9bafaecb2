"""Stores as folders, for callers that think in directories."""
