-- TAKE   pop items and take their job locks. A newer fence of the same run takes the lock over; an item whose lock another run has is put back.
-- Items that are too old, cancelled, or withdrawn up to their fence are dropped.
-- KEYS q:<id> run:<id> term   ARGV prefix id most lock_ms
-- Returns {items taken, number put back, number dropped, items of older terms, now in ms}
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local term = tonumber(redis.call('GET', KEYS[3]) or '0')
local taken, again, dropped, old = {}, 0, 0, {}
for _, item in ipairs(redis.call('LPOP', KEYS[1], ARGV[3]) or {}) do
  local by, job, run, fence, of, slot = string.match(item,
    '^(%d+)\31([^\31]+)\31([^\31]+)\31(%d+)\31(%d+)\31([^\31]*)\31')
  local marks = run and redis.call('MGET', ARGV[1] .. 'cancel:' .. run, ARGV[1] .. 'withdrawn:' .. run)
  if not by or ms > tonumber(by) or marks[1] or (marks[2] and tonumber(fence) <= tonumber(marks[2])) then
    dropped = dropped + 1
  elseif tonumber(of) < term then
    old[#old + 1] = item
  else
    local lock = ARGV[1] .. 'lock:job:' .. job
    if slot ~= '' then lock = lock .. ':' .. slot end
    local held_fence, held_run = string.match(redis.call('GET', lock) or '', '^(%d+)|[^|]*|(.*)$')
    if held_run and held_run ~= run then
      again = again + 1
      redis.call('RPUSH', KEYS[1], item)
    elseif held_run and held_fence >= fence then
      dropped = dropped + 1
    else
      redis.call('SET', lock, fence .. '|' .. ARGV[2] .. '|' .. run, 'PX', ARGV[4])
      redis.call('HSET', KEYS[2], run, fence)
      taken[#taken + 1] = item
    end
  end
end
if #taken > 0 then redis.call('PEXPIRE', KEYS[2], 3600000) end
-- A list that was emptied and filled again is a new key without a TTL.
if again > 0 then redis.call('PEXPIRE', KEYS[1], 3600000) end
return {taken, again, dropped, old, ms}
