-- DISPATCH   push items to the lists of nodes and signal each; refused for a deposed leader, and if Redis lost the leader's epoch.
-- KEYS term boot (q:<id> ch:w:<id>)...   ARGV term boot start_by_ms (count item...)...
-- item = job US run US fence US term US slot US json US definition   (US = byte 0x1F; slot is the run id when runs may overlap, else empty)
-- Returns 'ok' | 'stale' | 'forgotten'
if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return 'stale' end
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 'forgotten' end
local now = redis.call('TIME')
local by = string.format('%d', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3])
local at = 4
for k = 3, #KEYS, 2 do
  local last = at + tonumber(ARGV[at])
  for i = at + 1, last do redis.call('RPUSH', KEYS[k], by .. '\31' .. ARGV[i]) end
  redis.call('PEXPIRE', KEYS[k], 3600000)
  redis.call('PUBLISH', KEYS[k + 1], 'work')
  at = last + 1
end
return 'ok'
