"""Tables: one module per table, whose ``build`` makes a data frame from records and the paper's values."""
