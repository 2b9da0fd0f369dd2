"""From source columns to a typed, hashed dataset."""
