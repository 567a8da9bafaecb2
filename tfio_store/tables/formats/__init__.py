"""Formats of files: of tables, of arrays and images, and WebDataset's tar files."""
