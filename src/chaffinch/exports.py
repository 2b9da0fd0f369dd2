"""Finished runs for other tools: OpenLineage, pandera and dbt.

>>> import chaffinch
>>> schema = chaffinch.exports.to_pandera("orders")  # doctest: +SKIP
>>> schema.validate(newer)  # doctest: +SKIP
"""

from chaffinch.tasks.exports.dbt import to_dbt
from chaffinch.tasks.exports.openlineage import to_openlineage
from chaffinch.tasks.exports.pandera import to_pandera

__all__ = ["to_dbt", "to_openlineage", "to_pandera"]
