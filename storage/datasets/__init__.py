"""From a source's columns to a typed, hashed data set."""
