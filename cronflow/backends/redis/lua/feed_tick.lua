-- FEED_TICK   append a tick if the holder has the right to build ticks.
-- KEYS builder feed   ARGV holder, text, how many entries are kept, ttl in ms   Returns the id of the entry, or nil
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'kind', 'tick', 'text', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return id
