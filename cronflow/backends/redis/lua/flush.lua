-- FLUSH   forget everything of one namespace at once, as a Redis does that has lost its memory.
-- KEYS any key of the namespace, which says where in a cluster they are   ARGV pattern of all of them
-- Returns how many there were.
local keys = redis.call('KEYS', ARGV[1])
for _, key in ipairs(keys) do redis.call('UNLINK', key) end
return #keys
