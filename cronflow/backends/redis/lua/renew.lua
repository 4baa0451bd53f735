-- RENEW   compare, then renew. Keys that Redis lost are restored under the same term.
-- KEYS leader term boot resign   ARGV holder ttl_ms term boot   Returns 'ok' | 'asked' (to resign) | 'again' | 'lost'
local term = tonumber(redis.call('GET', KEYS[2]) or '0')
if term > tonumber(ARGV[3]) then return 'lost' end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 'lost' end
if holder and term == tonumber(ARGV[3]) and redis.call('GET', KEYS[3]) == ARGV[4] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  if redis.call('GET', KEYS[4]) == ARGV[3] then return 'asked' end
  return 'ok'
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[4])
return 'again'
