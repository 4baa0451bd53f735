-- RELEASE   compare, then delete the locks; announce what the node accepts ahead; signal free capacity to the leader.
-- KEYS run:<id> ch:room ahead:<id>   ARGV prefix ahead ahead_ms (job slot run fence)...   Returns the number of locks deleted
local mine = 0
for i = 4, #ARGV, 4 do
  local lock = ARGV[1] .. 'lock:job:' .. ARGV[i]
  if ARGV[i + 1] ~= '' then lock = lock .. ':' .. ARGV[i + 1] end
  local held = redis.call('GET', lock)
  if held and string.sub(held, 1, #ARGV[i + 3] + 1) == ARGV[i + 3] .. '|' then
    redis.call('DEL', lock)
    mine = mine + 1
  end
  if redis.call('HGET', KEYS[1], ARGV[i + 2]) == ARGV[i + 3] then redis.call('HDEL', KEYS[1], ARGV[i + 2]) end
end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
redis.call('PUBLISH', KEYS[2], 'done')
return mine
