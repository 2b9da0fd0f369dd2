"""Settings, checked by pydantic: the same for Python, the command line and the form."""
