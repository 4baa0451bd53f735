-- FEED_CLAIM   take or renew the right to build ticks.
-- KEYS builder   ARGV holder, ttl in ms   Returns 1 if the holder has it
local present = redis.call('GET', KEYS[1])
if present and present ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
