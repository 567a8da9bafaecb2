"""Datasets of any elements, saved and loaded."""
