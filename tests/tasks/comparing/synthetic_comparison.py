"""A comparison of a table in memory, ready to be measured cell by cell."""

from pathlib import Path

import pandas as pd

from chaffinch.tasks.comparing.cells import Compared
from chaffinch.tasks.comparing.plan import ComparedTable, Plan
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.data.matrix import load_roles, load_rows
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.pipeline.selection_run import LoadedTable
from tests.sources import ingest


def compared_in_memory(table: pd.DataFrame, asked: ComparisonSettings, folder: Path) -> Compared:
    """Ingest a table into a folder, and load all of it."""
    of_any = asked.selection(asked.models[0], 0)
    dataset = ingest(table, folder)
    description = describe_table(dataset.read(), of_any)
    rows = load_rows(dataset, of_any, description)
    roles = load_roles(dataset, of_any, description)
    plan = Plan(asked, (ComparedTable("synthetic", dataset, description),))
    return Compared(plan, (LoadedTable(rows, roles),))
