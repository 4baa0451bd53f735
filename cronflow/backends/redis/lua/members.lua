-- MEMBERS   the live nodes; nodes whose heartbeat has expired are removed from the set if `forget` is 1.
-- KEYS nodes   ARGV prefix forget   Returns {{json, age_ms, queued, held, 1 if it is to drain, ahead}...}
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local found, seen = {}, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #seen, 2 do
  local json = redis.call('GET', ARGV[1] .. 'node:' .. seen[i])
  if json then
    local drain = 0
    if redis.call('GET', ARGV[1] .. 'drain:' .. string.match(seen[i], '^[^#]*')) == '1' then drain = 1 end
    found[#found + 1] = {json, math.max(0, ms - tonumber(seen[i + 1])),
      redis.call('LLEN', ARGV[1] .. 'q:' .. seen[i]), redis.call('HLEN', ARGV[1] .. 'run:' .. seen[i]), drain,
      tonumber(redis.call('GET', ARGV[1] .. 'ahead:' .. seen[i]) or '0')}
  elseif ARGV[2] == '1' then
    redis.call('ZREM', KEYS[1], seen[i])
  end
end
return found
