"""S3, GCS and Azure, through the clients of their fsspec filesystems."""
