"""Tables: each a module whose ``build`` makes a data frame from records and the paper's values."""
