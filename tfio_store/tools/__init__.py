"""Whole datasets: checked, repaired, indexed, cleaned, described."""
