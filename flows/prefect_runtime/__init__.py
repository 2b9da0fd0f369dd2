"""Prefect integration of a run: environment, server, tasks, limits, events and artifacts."""
