-- Give the right to build ticks back.
-- KEYS builder   ARGV holder   Returns 1 when it was the holder's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
