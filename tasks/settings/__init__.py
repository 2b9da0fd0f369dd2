"""Settings, checked by pydantic: one set for Python, the command line and the form."""
