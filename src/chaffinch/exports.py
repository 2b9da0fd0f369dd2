"""Finished runs for other tools: MLflow, OpenLineage, pandera, dbt and Feast.

>>> import chaffinch
>>> schema = chaffinch.exports.to_pandera("orders")  # doctest: +SKIP
>>> schema.validate(newer)  # doctest: +SKIP
"""

from chaffinch.tasks.exports.dbt import to_dbt
from chaffinch.tasks.exports.feast import to_feast
from chaffinch.tasks.exports.mlflow import _load_pyfunc as _load_pyfunc  # which MLflow calls
from chaffinch.tasks.exports.mlflow import to_mlflow
from chaffinch.tasks.exports.openlineage import to_openlineage
from chaffinch.tasks.exports.pandera import to_pandera

__all__ = ["to_dbt", "to_feast", "to_mlflow", "to_openlineage", "to_pandera"]
