"""The use-cases of the service through the API: for a command line that is logged in and knows no server.

The rule: what comes out are the same domain values and the same errors that the service itself would give, so whoever
shows them need not know which of the two it is. It decides nothing; the API does.
"""
