-- LET_EXPIRE   a time limit for keys that have none; one that got its own meanwhile keeps that.
-- KEYS key...   ARGV ttl_ms   Returns how many
local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[1])
    n = n + 1
  end
end
return n
