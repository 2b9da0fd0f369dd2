"""Finished runs for other tools: pandera.

>>> import chaffinch
>>> schema = chaffinch.exports.to_pandera("orders")  # doctest: +SKIP
>>> schema.validate(newer)  # doctest: +SKIP
"""

from chaffinch.tasks.exports.pandera import to_pandera

__all__ = ["to_pandera"]
