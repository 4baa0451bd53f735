-- RENEW_LOCKS   renew this node's locks and restore those that Redis lost.
-- KEYS run:<id>   ARGV prefix id lock_ms (job slot run fence)...   Returns the runs whose lock another run or node has
local lost = {}
for i = 4, #ARGV, 4 do
  local lock = ARGV[1] .. 'lock:job:' .. ARGV[i]
  if ARGV[i + 1] ~= '' then lock = lock .. ':' .. ARGV[i + 1] end
  local mine = ARGV[i + 3] .. '|' .. ARGV[2] .. '|' .. ARGV[i + 2]
  local held = redis.call('GET', lock)
  if not held or held == mine then
    redis.call('SET', lock, mine, 'PX', ARGV[3])
    redis.call('HSET', KEYS[1], ARGV[i + 2], ARGV[i + 3])
  else
    lost[#lost + 1] = ARGV[i + 2]
  end
end
redis.call('PEXPIRE', KEYS[1], 3600000)
return lost
