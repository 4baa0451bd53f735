"""Who may ask: passwords, tokens, API keys; and the secrets of jobs.

The use-cases behind the routes and commands that manage them. It knows no web framework and no server; what is on the
way is text, what is kept is hashed or sealed.
"""
