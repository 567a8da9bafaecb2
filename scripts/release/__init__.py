"""``make release-check``: all of a release that this machine can look at, each ok or failed.

    facts in the tree ─ documentation ─ archives, built twice ─ a wheel in an empty environment

docs/release.md says what a person does besides.
"""
