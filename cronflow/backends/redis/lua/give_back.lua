-- GIVE_BACK   empty a node's list.
-- KEYS q:<id>   ARGV -   Returns the items
local items = redis.call('LRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
return items
