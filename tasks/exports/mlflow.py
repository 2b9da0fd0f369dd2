"""A run of MLflow: settings, losses, metrics, contract, report, and the retrained model.

The model is stored as the contract and the native files of its library. MLflow loads it by
`_load_pyfunc`, so that nothing of it is a pickle or executed.
"""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InputError, UnreachableError
from chaffinch.storage.extras import EXTRAS, require
from chaffinch.tasks.pipeline.report import REPORT_FILE
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE, model_files
from chaffinch.tasks.results.contract import FeatureContract
from chaffinch.tasks.results.model import SelectedModel
from chaffinch.tasks.results.previous_run import STORE, AnyRun, Former, read_former
from chaffinch.tasks.selection.models import kind_of
from chaffinch.tasks.settings.identity import versions

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

_LOADER = "chaffinch.exports"  # the module whose `_load_pyfunc` MLflow calls
_MODEL = "model"  # the name of the model, and the folder of its native files
_LONGEST = 500  # characters of a parameter, on every release of MLflow's server
# MLflow about its own types, and about an example of input, as the contract has all types
_OF_NO_USE = r".*(Any type hint is inferred|An input example was not provided)"
_CREDENTIALS = re.compile(r"//[^/\s]*@")  # in an address
_METHOD, _METHODS = "predict_method", ("predict", "predict_proba")
_TYPES = {"integer": "long", "number": "double", "boolean": "boolean", "text": "string"}


def to_mlflow(run: AnyRun, *, experiment: str | None = None, store: str | Path = STORE) -> str:
    """Log a finished run to MLflow, with its model, and return the id of MLflow's run.

    It goes where MLflow is configured: ``MLFLOW_TRACKING_URI``, or a file in this folder.

    Parameters
    ----------
    run, store
        See `to_dbt`; not a contract alone.
    experiment : str, optional
        Name of the experiment, made if it is missing; by default MLflow's own.

    Returns
    -------
    str
        The id of MLflow's run: ``mlflow.pyfunc.load_model`` finds the model at
        ``"runs:/ID/model"``.

    Raises
    ------
    InputError
        If mlflow is not installed, MLflow refuses the run, there is no such run, or only its
        contract is given.
    StorageError
        If the run is damaged.

    Notes
    -----
    Settings are parameters, of at most 500 characters each; losses and metrics of the rows that
    judge are metrics; ``selection.json`` has all of it. Each call makes another run of MLflow.
    """
    require("mlflow", "a run of MLflow")
    return log_run(read_former(run, store), experiment)[0]


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Raise the errors of MLflow as InputError, which says that it does not do `what`."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        reason = _CREDENTIALS.sub("//", " ".join(str(error).split()))
        kind = UnreachableError if "Connection" in reason else InputError
        raise kind(
            f"MLflow does not {what} ({reason}); check MLFLOW_TRACKING_URI and its credentials in "
            "the environment"
        ) from None


def log_run(exported: Former, experiment: str | None = None) -> tuple[str, str]:
    """Log a run, and return the ids of MLflow's run and of its model."""
    import mlflow

    stages = {record.stage: record for record in exported.in_store.records()}
    files = {
        CONTRACT_FILE: stages["evaluate"].read(CONTRACT_FILE),
        **{f"{_MODEL}/{k}": v for k, v in model_files(stages["retrain"], _MODEL).items()},
    }
    with in_one_line("take the run"):
        number = None if experiment is None else _experiment(experiment)
        with (
            warnings.catch_warnings(),
            tempfile.TemporaryDirectory(prefix="chaffinch-") as folder,
            mlflow.start_run(run_name=exported.run, experiment_id=number, nested=True) as logged,
        ):
            warnings.filterwarnings("ignore", _OF_NO_USE)
            mlflow.log_params(dict(_parameters(exported.contract.settings)))
            mlflow.log_metrics(dict(_metrics(exported.contract)))
            mlflow.set_tags(_tags(exported))
            mlflow.log_text(files[CONTRACT_FILE].decode(), CONTRACT_FILE)
            mlflow.log_text(stages["write_report"].read(REPORT_FILE).decode(), REPORT_FILE)
            data = Path(folder, _MODEL)
            for path, content in files.items():
                (data / path).parent.mkdir(parents=True, exist_ok=True)
                (data / path).write_bytes(content)
            extra = EXTRAS.get(kind_of(exported.contract.model.name).package)
            name = f"chaffinch[{extra}]" if extra else "chaffinch"
            model = mlflow.pyfunc.log_model(
                name=_MODEL,
                loader_module=_LOADER,
                data_path=str(data),
                signature=_signature(exported.contract),
                pip_requirements=[f"{name}=={versions()['chaffinch']}"],
            )
            return str(logged.info.run_id), str(model.model_id)


class PyfuncModel:
    """The model as MLflow calls it; ``params={"predict_method": "predict_proba"}`` is possible."""

    def __init__(self, model: SelectedModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        method = (params or {}).get(_METHOD, _METHODS[0])
        if method not in _METHODS:
            raise InputError(f"{_METHOD} must be {' or '.join(_METHODS)} but is {method!r}")
        return getattr(self.model, method)(model_input)


def _load_pyfunc(path: str) -> PyfuncModel:
    """Return the model of a folder with a contract and native files; MLflow calls this."""
    folder = Path(path)
    contract = FeatureContract.read((folder / CONTRACT_FILE).read_bytes(), folder / CONTRACT_FILE)
    files = {file.name: file.read_bytes() for file in (folder / _MODEL).iterdir()}
    return PyfuncModel(SelectedModel.from_contract(contract, files))


def _experiment(name: str) -> str:
    import mlflow

    experiment = mlflow.get_experiment_by_name(name)
    return str(experiment.experiment_id if experiment else mlflow.create_experiment(name))


def _parameters(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting by its path, such as ``method.slacks``."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and not before:
            yield from _parameters(value, f"{name}.")
        elif value not in (None, [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            is_short = len(text) <= _LONGEST
            yield f"{before}{name}", text if is_short else f"{text[: _LONGEST - 3]}..."


def _metrics(contract: FeatureContract) -> Iterator[tuple[str, float]]:
    yield "n_features", len(contract.features)
    yield "n_candidates", len(contract.candidates)
    for name, losses in {"loss": contract.judged_losses, **contract.metrics}.items():
        yield f"{name}_all_features", losses.all_features
        yield f"{name}_selected", losses.selected


def _tags(exported: Former) -> dict[str, str]:
    contract, data_set = exported.contract, exported.in_store.description["source"]
    with suppress(InputError):  # a table in memory has no name
        data_set = exported.data_set(None)
    return {
        "chaffinch.run": exported.run,
        "chaffinch.data_set": data_set,
        "chaffinch.dataset_hash": contract.dataset.hash,
        "chaffinch.verdict": contract.comparison.verdict,
        "mlflow.note.content": contract.comparison.sentence,
    }


def _signature(contract: FeatureContract) -> ModelSignature:
    """Return the names of the features and the type of the prediction.

    Features have no types, since MLflow would refuse whole numbers for a number, and numbers or
    booleans for categories; the model reads all of these.
    """
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, ParamSchema, ParamSpec, Schema

    any_type: Any = AnyType  # which has no annotations
    columns = dict.fromkeys(contract.made_of.get(name, name) for name in contract.features)
    inputs: list[Any] = [ColSpec(any_type(), name, required=False) for name in columns]
    target = contract.target
    kind = "double" if target.task == "regression" else _TYPES[target.type]
    method = ParamSchema([ParamSpec(_METHOD, "string", _METHODS[0])])
    return ModelSignature(Schema(inputs), Schema([ColSpec(kind)]), method)
