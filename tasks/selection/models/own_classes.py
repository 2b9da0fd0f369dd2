"""Whether an object behaves as its library wrote it: of its very class, with that class's methods.

A derived class, or an instance with a function put in a method's place, may predict in another
way. What is read off such an object is not what it does.
"""

from __future__ import annotations

from typing import Any


def own_name(thing: Any, package: str) -> str:
    """Return the class name of one of a library's own objects, "" for any other.

    Parameters
    ----------
    thing : object
        An estimator, a Booster, a layer.
    package : str
        Where its class must come from, ``"sklearn"`` or ``"torch.nn"``.
    """
    kind = type(thing)
    is_of_package = f"{kind.__module__}.".startswith(f"{package}.")
    return kind.__name__ if is_of_package and not replaced_methods(thing) else ""


def replaced_methods(thing: Any) -> list[str]:
    """Return the names of methods in whose place the instance has something of its own."""
    own = vars(thing) if hasattr(thing, "__dict__") else {}
    return [name for name in own if callable(getattr(type(thing), name, None))]
