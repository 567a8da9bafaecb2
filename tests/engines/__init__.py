"""Ray, Beam, Spark and Dask on local clusters. They run in .venv-engines: `make test-engines`."""
