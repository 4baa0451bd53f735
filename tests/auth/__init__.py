"""Logins, keys, secrets and the audit log, from the routes down to the stores."""
