"""What the values of a sample's features are like."""
