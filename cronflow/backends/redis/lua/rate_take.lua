-- RATE_TAKE   take a token: the key has the time at which the bucket is full again (GCRA).
-- KEYS rate:<key>   ARGV interval_us burst   Returns 0, or the microseconds to wait
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[1])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + interval
local excess = full - now - interval * tonumber(ARGV[2])
if excess > 0 then return math.ceil(excess) end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return 0
