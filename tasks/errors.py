"""What can go wrong while others compute."""


class WorkersError(RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""
