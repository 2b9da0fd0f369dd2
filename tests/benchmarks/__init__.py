"""Side by side with what users would pick, and with what the papers published."""
