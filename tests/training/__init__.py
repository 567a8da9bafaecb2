"""Training loops other than TensorFlow's. They run in .venv-engines: `make test-training`."""
