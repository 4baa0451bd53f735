"""Reads the job definitions of other schedulers and writes them as a job file.

One module per source returns an `ImportedFile`; `yaml_text` prints it. The rule: nothing of the source is dropped
silently. Each decision is a note at the key it belongs to, and an entry that cannot be imported is a refusal with a
reason and a remedy. Nothing here uses the network, and nothing is applied.
"""
