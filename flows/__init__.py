"""What a person or a schedule starts."""
