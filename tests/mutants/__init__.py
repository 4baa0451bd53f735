"""Proof that the compare-and-set conditions are needed: each is taken away in turn, and a test must fail.

`catalogue` lists the mutants, `running` applies one to a copy of the package and runs the tests of its backend on it.
`python -m tests.mutants` (`make mutants`) tries all of them and prints a line for each; it ends with 1 when one
survived. `tests/test_mutants.py` checks at every run of the suite that the list fits the source and leaves no
condition out. The worktree itself is never written.
"""
