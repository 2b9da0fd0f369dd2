"""An alias in MLflow's registry that follows the promotions of a data set.

A promotion notes in the history which alias follows it. Then the alias is moved, and the history
notes to which entry. What was killed in between is done again by the next command of the data set:
to register a model again, or to move an alias again, changes nothing.
"""

from __future__ import annotations

import hashlib

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.extras import require
from chaffinch.storage.runs.promotions import Alias, Promotions
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.exports.mlflow import in_one_line, log_run
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE
from chaffinch.tasks.results.previous_run import read_former

_CONTRACT, _RUN = "chaffinch.contract", "chaffinch.run"  # tags of a version


def register(run: Run, alias: Alias) -> None:
    """Make a version of a registered model of a run, and the model too, unless they are there."""
    require("mlflow", f"the alias {alias}")
    with in_one_line("register the model"):
        from mlflow import MlflowClient

        client = MlflowClient()
        if not client.search_registered_models(f"name = '{alias.model}'"):
            client.create_registered_model(alias.model)
        _version(run, _contract(run), alias.model)


def move_alias(histories: Promotions, name: str) -> str | None:
    """Move the alias of a data set to the model in use, if it is another; return what prevents it.

    The registry is the one that MLflow is set to. If it does not have the model, it is another than
    that in which the alias was set first, and is not changed.
    """
    alias: Alias | None = None
    try:
        if histories.behind(name) is None:
            return None
        with histories.moving():
            if (behind := histories.behind(name)) is None:
                return None
            alias, entry = behind
            require("mlflow", f"the alias {alias}")
            with in_one_line("move the alias"):
                from mlflow import MlflowClient

                client = MlflowClient()
                client.get_registered_model(alias.model)
                run = Store(histories.folder.parent).named(entry.run)
                version = _version(run, entry.contract, alias.model)
                client.set_registered_model_alias(alias.model, alias.alias, version)
            histories.mark_moved(name, alias)
    except (InputError, StorageError) as error:
        return f"the alias {alias or 'in MLflow'} of {name} is not moved yet: {error}"
    return None


def _version(run: Run, contract: str, model: str) -> str:
    """Return the newest version of a model with a contract; it is made of the run if need be."""
    from mlflow import MlflowClient

    client = MlflowClient()
    query = f"name = '{model}' AND tags.`{_CONTRACT}` = '{contract}'"
    if versions := client.search_model_versions(query):
        return str(max(int(version.version) for version in versions))
    if not run.exists or contract != _contract(run):
        raise InputError(
            f"no version of the model {model!r} has the contract in use, and its run {run.name!r} "
            "was removed or made again; promote another run"
        )
    run_id, model_id = log_run(read_former(run.folder, run.folder))
    made = client.create_model_version(
        model,
        f"models:/{model_id}",
        run_id,
        tags={_CONTRACT: contract, _RUN: run.name},
        model_id=model_id,
    )
    return str(made.version)


def _contract(run: Run) -> str:
    stages = {record.stage: record for record in run.records()}
    return hashlib.sha256(stages["evaluate"].read(CONTRACT_FILE)).hexdigest()
