"""The measured tables and plots of the documentation, from the raw files in docs/results."""
