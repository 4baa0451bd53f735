-- LEAVE   end a node's heartbeat; the runs it holds stay listed until they are released or expire.
-- KEYS node:<id> nodes name:<name> ch:leader   ARGV id   Returns 1
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end
redis.call('PUBLISH', KEYS[4], 'left')
return 1
