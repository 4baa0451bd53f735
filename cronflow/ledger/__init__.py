"""The ledger: every instant that fell due, with the one run that it became, for people who must prove it.

`derivation` computes what was due from the versions of a job, with the independent schedule oracle and not with the
planner's code. `judging` says what became of each instant. `reading` does both for a cluster, `export` writes the file
with the chain of hashes, and `verification` checks such a file without a cluster. Nothing here changes a cluster.
"""
