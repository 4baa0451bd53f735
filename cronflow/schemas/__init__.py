"""Jobs, runs, nodes and the cluster as plain values, with the field names of the interface.

What `-o json` prints and what the REST API answers. The rule: a field is there for every object of its kind, and is
null where there is no value; instants are ISO 8601 in UTC, lengths of time say their unit in their name. Nothing here
decides anything.
"""
