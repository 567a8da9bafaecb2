"""Random cases of reading, each from one integer, held to plain Python and to TensorFlow.

python -m tests.differential --seed N        one case, with all that it chose
python -m tests.differential --cases 10000   many, in two processes
"""
