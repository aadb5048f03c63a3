"""What the data sets share: reading files, checking tables, and preparing them."""
