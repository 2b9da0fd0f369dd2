"""Feature selection as a production workflow.

>>> import chaffinch
>>> result = chaffinch.select("table.csv", "price")  # doctest: +SKIP
>>> result.features, result.verdict  # doctest: +SKIP
>>> engine = chaffinch.masked_loss(model, X, y, loss="log_loss")  # doctest: +SKIP
>>> engine.without_each()  # doctest: +SKIP

This file is the whole surface; everything behind it is imported at its first use.
"""

import lazy_loader

__version__ = "0.2.0"

# `lazy_loader` reads the names from `__init__.pyi`, which is also what type checkers read.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
