"""Real servers for tests and benchmarks, each in a process of its own on a free loopback port.

A server lives in its own process so that it shares neither the interpreter lock nor the file
descriptors of the code under test, and so that a fork in a test does not fork the server too.
"""
