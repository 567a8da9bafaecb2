"""`TFRecordDataset` and its ops."""
