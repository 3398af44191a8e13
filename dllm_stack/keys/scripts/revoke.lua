-- ARGV: 1 nonce, then id and revocation of each key
-- Returns the number of the change, or of the last one if this was none
local any = false
for i = 2, #ARGV, 2 do
  any = revoke(ARGV[i], ARGV[i + 1]) or any
end
return any and changed(ARGV[1]) or number_of(last_change())
