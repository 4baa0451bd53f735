-- FEED_RELEASE   release the right to build ticks.
-- KEYS builder   ARGV holder   Returns 1 if the holder had it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
