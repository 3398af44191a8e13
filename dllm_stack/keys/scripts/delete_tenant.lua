-- A tenant goes, and all of its keys with it.
-- ARGV: 1 nonce, 2 name, 3 the revocation of its keys, 4 Unix seconds
-- Returns {the change, id of each key revoked...}
local result = {''}
local keys = redis.call('HGETALL', P .. 'keys')
for i = 1, #keys, 2 do
  if cjson.decode(keys[i + 1]).tenant == ARGV[2] and revoke(keys[i], ARGV[3]) then
    result[#result + 1] = keys[i]
  end
end
redis.call('HDEL', P .. 'tenants', ARGV[2])
redis.call('ZREM', P .. 'touched', 'tenants:' .. ARGV[2])
depart(ARGV[2], ARGV[4])
result[1] = changed(ARGV[1])
return result
