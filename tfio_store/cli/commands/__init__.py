"""The commands. Each one imports what it calls when it runs, so that --help is quick."""
