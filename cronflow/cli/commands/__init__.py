"""The commands, by noun: they read arguments, call the cluster through one client, and show the answer."""
