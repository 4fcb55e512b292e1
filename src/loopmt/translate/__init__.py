"""Translating: every direction's network, decoding, scoring, and generating along a path."""
