"""What a run gives: its contract, fitted model and result."""
