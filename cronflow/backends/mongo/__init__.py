"""MongoDB: everything that must not be lost, written with majority and journal."""
