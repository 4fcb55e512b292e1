"""What several tests share: corpora, checkpoints, servers. Fixtures are in `conftest.py`."""
