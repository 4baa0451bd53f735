"""Redis: election, heartbeats, the nodes' lists, job locks and signals. It is never the only copy of anything."""
