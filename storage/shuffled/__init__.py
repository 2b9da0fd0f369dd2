"""Tables larger than memory, written once in random row order."""
