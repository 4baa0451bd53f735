-- RELEASE   compare, then delete the locks; signal free capacity to the leader.
-- KEYS run:<id> ch:room   ARGV prefix (job slot run fence)...   Returns the number of locks deleted
local mine = 0
for i = 2, #ARGV, 4 do
  local lock = ARGV[1] .. 'lock:job:' .. ARGV[i]
  if ARGV[i + 1] ~= '' then lock = lock .. ':' .. ARGV[i + 1] end
  local held = redis.call('GET', lock)
  if held and string.sub(held, 1, #ARGV[i + 3] + 1) == ARGV[i + 3] .. '|' then
    redis.call('DEL', lock)
    mine = mine + 1
  end
  if redis.call('HGET', KEYS[1], ARGV[i + 2]) == ARGV[i + 3] then redis.call('HDEL', KEYS[1], ARGV[i + 2]) end
end
redis.call('PUBLISH', KEYS[2], 'done')
return mine
