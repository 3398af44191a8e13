-- ARGV: 1 nonce, 2 number of keys, then id and revocation of each, then name of each tenant that was deleted and
--       when
-- Returns the change, or of the last one if this was none
local any, first_tenant = false, 3 + 2 * ARGV[2]
for i = 3, #ARGV, 2 do
  any = (i < first_tenant and revoke or depart)(ARGV[i], ARGV[i + 1]) or any
end
return any and changed(ARGV[1]) or last_change()
