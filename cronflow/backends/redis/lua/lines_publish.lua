-- Publish lines of runs while somebody looks on.
-- KEYS tail lines   ARGV text, omitted, how many batches are kept, ttl in ms   Returns 1, or 0 when nobody looks on
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'text', ARGV[1], 'omitted', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
