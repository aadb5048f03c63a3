"""Training a network once, without measuring it: from arrays to weights."""
