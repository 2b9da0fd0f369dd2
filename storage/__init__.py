"""Reading and writing: sources, typed tables, runs. No statistics, workflow engine or cluster."""
