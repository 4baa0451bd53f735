-- REPORT   a heartbeat. A live incarnation keeps its name to itself.
-- KEYS node:<id> nodes name:<name>   ARGV id json ttl_ms   Returns '' | the id of the live incarnation that has the name
local owner = redis.call('GET', KEYS[3])
if owner and owner ~= ARGV[1] then return owner end
local now = redis.call('TIME')
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000), ARGV[1])
return ''
