"""The command line: `cronflow …`.

A command reads its arguments, calls a client and prints the answer; it makes no decisions. Heavy modules are imported
only when a command needs them, so that help is fast.
"""
