"""``python -m tfio_store`` is the command `tfio-store`."""

from tfio_store.cli.entry import script

if __name__ == "__main__":
    script()
