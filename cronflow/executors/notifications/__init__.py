"""Notifications as people read them, and their receivers: e-mail, Slack, Microsoft Teams, pings and plain webhooks."""
