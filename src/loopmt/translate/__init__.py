"""Translation: the networks of all directions, decoding, scoring, and generation along a path."""
