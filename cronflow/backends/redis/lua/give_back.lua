-- GIVE_BACK   empty a node's list: what lies there goes back to the leader.
-- KEYS q:<id>   ARGV -   Returns the items
local items = redis.call('LRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
return items
