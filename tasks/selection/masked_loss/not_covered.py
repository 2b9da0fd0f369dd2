"""How an exact engine declines a model."""


class NotCovered(Exception):  # noqa: N818 - it steers, it is not shown
    """An engine does not hold for this model; the message says what it lacks, as a reason."""
