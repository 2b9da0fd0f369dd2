"""Titles of stages: what the terminal, the report, Prefect and the documents call them."""

from __future__ import annotations

# What a user reads for a stage, everywhere and for every method.
TITLES = {
    "ingest": "read the table",
    "describe": "check the columns",
    "split": "split the rows",
    "train_base_model": "tune and train the model",
    "optimise_mask": "search for features",
    "choose_mask": "choose the features",
    "retrain": "retrain the model",
    "evaluate": "evaluate the selection",
    "judge_changes": "judge the changes",
    "search_alternatives": "search for alternatives",
    "score_alternatives": "score the alternatives",
    "write_report": "write the report",
    # of a comparison
    "read_table": "read the tables",
    "measure_cells": "measure the methods",
    "conclude": "summarise the results",
}


def title_of(stage: str) -> str:
    """Return the title of a stage, by which it is shown."""
    return TITLES.get(stage, stage.replace("_", " "))
