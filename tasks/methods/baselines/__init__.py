"""The methods that people use today."""
