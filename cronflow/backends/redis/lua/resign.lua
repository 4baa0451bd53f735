-- RESIGN   compare, then delete the leader key; signal the followers.
-- KEYS leader ch:leader   ARGV holder   Returns 1 | 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], 'resigned')
return 1
