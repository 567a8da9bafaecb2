"""Readers that are killed again and again, and go on from what they saved."""
