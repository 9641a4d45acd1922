"""Serves all commands: flags and configs, --help, exit codes, signals; ../errors.py has an error's form.

May import base. Start with run.py, which runs a command from its flags to its exit code.
"""
