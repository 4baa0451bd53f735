"""Proof that the compare-and-set conditions are needed: each is removed in turn, and a test must fail.

`catalogue` lists the mutants, `running` applies one to a copy of the package and runs its backend's tests on the copy.
`python -m tests.mutants` (`make mutants`) tries all of them, prints a line for each, and exits with 1 if one survived.
`tests/test_mutants.py` checks in every test run that the list matches the source and omits no condition. The worktree
itself is never written.
"""
