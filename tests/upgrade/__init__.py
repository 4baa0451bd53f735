"""Upgrades under load, with the wheels of two versions side by side: `make upgrade-test`."""
