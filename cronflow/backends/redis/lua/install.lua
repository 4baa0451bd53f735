-- INSTALL   the winner of an election publishes its term and the epoch of Redis's data.
-- KEYS leader term boot   ARGV holder term boot   Returns 1 | 0 (another holder, or a higher term)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[3])
return 1
