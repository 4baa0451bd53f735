"""A node: one process of the cluster, and the roles it plays. Every node can lead; every node works."""
