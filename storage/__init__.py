"""Bytes in and out: sources, typed tables, runs. No statistics, no workflow engine, no cluster."""
