"""``chaffinch reselect``, one of the commands that `chaffinch.flows.commands` gathers."""

from typing import Any

import click

from chaffinch.flows.option_fields import RESELECTION, STRICT
from chaffinch.flows.options import json_flag, nested, settings_options, verbosity_flags
from chaffinch.flows.server import Server
from chaffinch.tasks.reselect_settings import ReselectionSettings
from chaffinch.tasks.settings import ExecutionSettings


@click.command(short_help="Begin with a former run, and change what newer rows say.")
@click.argument("run")
@click.argument("data")
@settings_options(ReselectionSettings, RESELECTION)
@settings_options(ExecutionSettings, STRICT)
@verbosity_flags
@json_flag
def reselect(run: str, data: str, as_json: bool, verbosity: str | None, **given: Any) -> None:
    """Begin with the features of RUN, and let them leave or return where newer rows say so.

    RUN is the name of a finished run in the store, its folder, or its selection.json; DATA holds
    the newer rows. All that no option says is as in RUN. The exit codes are those of chaffinch run.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.
    """
    from chaffinch.flows.prefect_environment import prepare

    prepare(quiet=True)
    server = Server()
    from chaffinch.flows import terminal
    from chaffinch.tasks.former import read_former, settings_of
    from chaffinch.tasks.ingestion import each_read_once
    from chaffinch.tasks.steps import steps_of
    from chaffinch.tasks.story import check

    asked = ReselectionSettings(**nested(given, RESELECTION))
    execution = ExecutionSettings(**nested(given, STRICT))
    settings = settings_of(read_former(run, execution.store), asked)
    steps = steps_of(with_changes=True)
    with terminal.progress(steps, verbosity) as (on_progress, warn, say), each_read_once():
        server.check()
        warn(check(data, settings, execution, on_progress=on_progress))
        on_progress(terminal.STARTING_PREFECT, 0, 1)
        server.start()
        from chaffinch.flows.artifacts import watching
        from chaffinch.flows.reselection import reselection

        with watching(on_progress, say), server.in_use():
            result = reselection(run, data, asked, execution)
    terminal.show(result, as_json=as_json, with_warnings=False)
