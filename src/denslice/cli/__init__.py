"""The command line: one file for each command, and the output that they share."""
