"""What a dataset is: its names, its manifest, its shards and their blocks."""
