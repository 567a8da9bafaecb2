"""Whole datasets: checked, repaired, indexed, copied, cleaned, described."""
