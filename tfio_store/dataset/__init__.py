"""Datasets: their names, manifests, shards and blocks."""
