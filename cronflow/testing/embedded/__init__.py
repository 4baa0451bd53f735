"""Real servers for `cronflow dev` and for the tests, as child processes of the caller: no Docker, no root, no daemon.

    with RedisServer(folder) as redis, MongoServer(folder) as mongo:
        ...  # redis.url, mongo.url

`binaries` finds the executables, `server` is the life of one child process, `redis` and `mongo` say how each server is
asked whether it is ready. The rule of the package: a server lives no longer than its caller, whatever ends the caller,
and what it has acknowledged is in its folder at the next start. It runs one server of each kind on the loopback
interface for one developer; it is not a way to run CronFlow in production, and it imports no driver until a MongoDB is
started.
"""

from cronflow.testing.embedded.binaries import Binary, CannotStart, find_mongod, find_redis
from cronflow.testing.embedded.mongo import MongoServer
from cronflow.testing.embedded.redis import RedisServer

__all__ = ["Binary", "CannotStart", "MongoServer", "RedisServer", "find_mongod", "find_redis"]
