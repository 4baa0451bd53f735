-- RATE_ATTEMPT   count an attempt that may fail, unless earlier ones block the key. The hash has their number and the time
-- of the last one.
-- KEYS rate:<key>   ARGV free wait_ms most_ms   Returns 0, or the milliseconds to wait
local free, first, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function wait(count)
  if count < free then return 0 end
  return math.min(most, first * 2 ^ math.min(count - free, 30))
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = tonumber(redis.call('HGET', KEYS[1], 'count') or '0')
local due = tonumber(redis.call('HGET', KEYS[1], 'at') or '0') + wait(count)
if now < due then return due - now end
count = count + 1
redis.call('HSET', KEYS[1], 'count', count, 'at', string.format('%.0f', now))
if count >= free then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 2 * wait(count)))
elseif redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], first)
end
return 0
