"""Methods of selection, one module each: settings, search and result."""
