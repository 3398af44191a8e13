-- A tenant goes, and all of its keys with it. ARGV: 1 nonce, 2 name, 3 the revocation
-- Returns {number of the change, id of each key revoked...}
local result = {0}
local keys = redis.call('HGETALL', P .. 'keys')
for i = 1, #keys, 2 do
  if cjson.decode(keys[i + 1]).tenant == ARGV[2] and revoke(keys[i], ARGV[3]) then
    result[#result + 1] = keys[i]
  end
end
local there = redis.call('HDEL', P .. 'tenants', ARGV[2]) == 1
result[1] = (there or #result > 1) and changed(ARGV[1]) or number_of(last_change())
return result
