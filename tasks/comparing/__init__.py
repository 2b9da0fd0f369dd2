"""Methods against each other and against all features: statistics, summary and report."""
