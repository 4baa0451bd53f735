-- RATE_TAKE_BACK   uncount the latest attempt.
-- KEYS rate:<key>   ARGV   Returns nothing
if tonumber(redis.call('HGET', KEYS[1], 'count') or '0') > 0 then redis.call('HINCRBY', KEYS[1], 'count', -1) end
