-- LINES_PUBLISH   publish log lines if the live tail has a viewer.
-- KEYS tail lines   ARGV text, omitted, how many batches are kept, ttl in ms   Returns 1, or 0 if there is no viewer
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'text', ARGV[1], 'omitted', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
