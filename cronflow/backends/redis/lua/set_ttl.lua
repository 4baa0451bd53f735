-- SET_TTL   set a TTL on the keys that have none.
-- KEYS key...   ARGV ttl_ms   Returns how many
local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[1])
    n = n + 1
  end
end
return n
