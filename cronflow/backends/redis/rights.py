"""The rights of the Redis user: every command that CronFlow sends or calls in a script, for the ACL and for the check.

Rights are checked before a process takes part, because a script that lacks one stops halfway.
"""

from __future__ import annotations

from cronflow.backends.redis.keys import RedisKeys

KEY, CHANNEL = "KEY", "CHANNEL"
NEEDED = (
    "ping",
    "time",
    "eval S 1 KEY",
    "evalsha S 1 KEY",
    "scan 0",
    "publish CHANNEL x",
    "subscribe CHANNEL",
    "del KEY",
    "exists KEY",
    "pexpire KEY 1",
    "pttl KEY",
    "get KEY",
    "getdel KEY",
    "mget KEY",
    "set KEY x",
    "hdel KEY x",
    "hget KEY x",
    "hgetall KEY",
    "hincrby KEY x 1",
    "hlen KEY",
    "hset KEY x x",
    "incr KEY",
    "llen KEY",
    "lpop KEY",
    "lrange KEY 0 1",
    "rpush KEY x",
    "zadd KEY 1 x",
    "zrange KEY 0 1",
    "zrem KEY x",
    "zremrangebyscore KEY 0 1",
    "xadd KEY * x x",
    "xrange KEY - +",
    "xrevrange KEY + -",
)
"""Each command with the arguments that show its keys and channels."""
USEFUL = ("info",)
"""Commands without which less is checked and reported."""


def acl_rule(keys: RedisKeys) -> str:
    """The rights of ACL SETUSER, without the password: these commands on the keys and channels of one namespace."""
    commands = " ".join(f"+{command.split()[0]}" for command in (*NEEDED, *USEFUL))
    return f"resetkeys ~{keys.prefix}* resetchannels &{keys.prefix}* -@all {commands}"


def samples(keys: RedisKeys) -> list[str]:
    """The needed commands on a key and a channel of the namespace."""
    names = {KEY: keys.leader, CHANNEL: keys.signal("room")}
    return [" ".join(names.get(word, word) for word in command.split()) for command in NEEDED]
