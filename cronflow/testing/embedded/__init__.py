"""Real servers for `cronflow dev` and for tests, as child processes: no Docker, no root, no daemon.

    with RedisServer(folder) as redis, MongoServer(folder) as mongo:
        ...  # redis.url, mongo.url

`MongoReplicaSet` has three members, for tests in which one is lost.

A server never outlives its caller, however the caller ends, and everything it acknowledged is in its folder at the next
start. Not for production: all servers are on the loopback interface of one machine. No driver is imported until a
MongoDB is started.
"""

from cronflow.testing.embedded.binaries import Binary, CannotStart, find_mongod, find_redis
from cronflow.testing.embedded.mongo import MongoServer
from cronflow.testing.embedded.redis import RedisServer
from cronflow.testing.embedded.replica_set import MongoReplicaSet

__all__ = ["Binary", "CannotStart", "MongoReplicaSet", "MongoServer", "RedisServer", "find_mongod", "find_redis"]
