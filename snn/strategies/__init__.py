"""Strategies: how memory is held and moved while a network trains. One module each."""
