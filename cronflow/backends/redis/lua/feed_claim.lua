-- Take the right to build ticks, or keep it.
-- KEYS builder   ARGV holder, ttl in ms   Returns 1 when it is the holder's
local present = redis.call('GET', KEYS[1])
if present and present ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
