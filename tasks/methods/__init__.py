"""Methods of selection, a module each: settings, search and result."""
