"""The command line: `cronflow …`.

A singular noun runs a process, a plural one manages things. The rule: a command reads its arguments, asks the service,
and shows values; what is decided, is decided below. Nothing heavy is imported before a command needs it, so that help
answers at once.
"""
