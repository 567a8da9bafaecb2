"""The private functions of other libraries that the stores use: one module for each client.

No other module touches one. pyproject.toml bounds the clients' versions from above, and
``tests/storage/test_private.py`` tells what has changed when a bound is raised.
"""
