-- FORGET_NODES   remove nodes without a recent heartbeat from the set.
-- KEYS nodes   ARGV silent_ms   Returns how many
local now = redis.call('TIME')
local limit = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(ARGV[1])
return redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%d', limit))
