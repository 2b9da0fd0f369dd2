"""The errors a user can mend: one line that names the limit, the value and the remedy."""


class InputError(ValueError):
    """What was given cannot be used: a table, a column, a setting, a run name.

    The command line answers it with exit code 2 and its one line, without a traceback.
    """


class StorageError(OSError):
    """The store cannot take or give back what it should: a full disk, a damaged or missing file.

    The command line answers it with exit code 1 and its one line, without a traceback.
    """


class LaterReleaseError(StorageError):
    """A file was written by a later release; this one is to be updated."""
