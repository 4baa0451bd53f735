-- CHECK_RIGHTS   which of some commands this user may not run. Redis before 7.0 cannot tell.
-- KEYS any key   ARGV command with its arguments...   Returns the names of the commands
local missing = {}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = words[1] end
end
return missing
