-- STREAM_READ   read a stream after an entry, if that entry still exists.
-- KEYS stream   ARGV id of the entry ('' for the beginning), how many at most   Returns entries, or nil
if ARGV[1] == '' then return redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2]) end
local found = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2] + 1)
if #found == 0 or found[1][1] ~= ARGV[1] then return false end
table.remove(found, 1)
return found
