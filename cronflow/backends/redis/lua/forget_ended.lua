-- FORGET_ENDED   remove what this node no longer holds from its hash of taken runs.
-- KEYS run:<id>   ARGV (run fence)... of the runs that it holds   Returns the number of entries removed
local held, gone = {}, 0
for i = 1, #ARGV, 2 do held[ARGV[i] .. '|' .. ARGV[i + 1]] = true end
local found = redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  if not held[found[i] .. '|' .. found[i + 1]] then
    redis.call('HDEL', KEYS[1], found[i])
    gone = gone + 1
  end
end
return gone
