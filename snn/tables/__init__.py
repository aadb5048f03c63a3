"""Tables: a declaration of each, whose ``build`` makes a data frame from cells and published values."""
