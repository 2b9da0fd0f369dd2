"""Bootstrap, corrected tests, verdicts, ranks, stability and drift."""
