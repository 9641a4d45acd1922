"""Serves all commands: flags and configs, --help, one line for an error, signals.

May import base. Start with run.py, which runs a command from its flags to its exit code.
"""
