"""Tables too large for memory, written once with their rows shuffled."""
