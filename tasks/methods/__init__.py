"""The methods of selection, one file each, from settings to what was found."""
