"""What a run needs of Prefect: its environment, server, tasks, limits, events and artifacts."""
