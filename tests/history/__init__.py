"""Judging what really happened: a history of a cluster, and the checker that knows what no correct one contains."""
