"""The command `tfio-store`. It parses what is typed, calls the rooms below, and prints.

Here are its exit codes.
"""

DAMAGED = 1
"""The answer is no: there is damage, or a difference."""

USAGE = 2
NOT_THERE = 3
"""Not found, or forbidden."""

STORE_FAILED = 4
"""After all retries."""

NO_DATASET = 5
"""Not TFRecords, Examples or a manifest."""

INTERNAL = 70
"""A fault of this program."""

INTERRUPTED = 130
"""By Control-C. Other signals have other numbers behind 128."""


def of_signal(number: int) -> int:
    """The exit code that shells use for a signal."""
    return 128 + number


class Signalled(BaseException):
    """The process must end. Whoever is at work takes back what it began."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
