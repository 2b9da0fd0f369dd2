"""One file per stage of the story; `selection` holds the mathematics."""
