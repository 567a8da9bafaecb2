"""``make test-matrix``: the tests on each Python, and with the oldest and newest of what is used.

    a wheel for each Python ─ an environment for each row ─ the row's tests ─ a table

The environments hold the wheel, and the tests of the source distribution lie apart from the
package's source, so that they find what a user installs.
"""
