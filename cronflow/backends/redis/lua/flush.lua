-- FLUSH   delete every key of a namespace, as if Redis had lost its data.
-- KEYS any key of the namespace, to route the call in a cluster   ARGV pattern of all keys
-- Returns how many there were.
local keys = redis.call('KEYS', ARGV[1])
for _, key in ipairs(keys) do redis.call('UNLINK', key) end
return #keys
