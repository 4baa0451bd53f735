-- POLICY   what the server that keeps this namespace does when its memory is full; asked in a script, so that a cluster asks that one.
-- KEYS leader   Returns the name of the policy, or nothing where the server does not tell
local said = redis.pcall('INFO', 'memory')
if type(said) ~= 'string' then return false end
return string.match(said, 'maxmemory_policy:([%w-]+)') or false
