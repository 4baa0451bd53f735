-- REPORT   a heartbeat. Refused if another live incarnation has the name. A drain request that Redis lost is restored.
-- KEYS node:<id> nodes name:<name> drain:<name>   ARGV id json ttl_ms asked (1: the previous answer was to drain)
-- Returns {'' | the id of the live incarnation that has the name, 1 if it is to drain}
local owner = redis.call('GET', KEYS[3])
if owner and owner ~= ARGV[1] then return {owner, 0} end
local now = redis.call('TIME')
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000), ARGV[1])
local drain = redis.call('GET', KEYS[4])
if not drain and ARGV[4] == '1' then
  redis.call('SET', KEYS[4], '1')
  drain = '1'
end
if drain == '1' then return {'', 1} end
return {'', 0}
