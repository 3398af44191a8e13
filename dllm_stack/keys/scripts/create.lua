-- A new key, in the place of another if one is named. A tenant not known yet becomes one without limits.
-- ARGV: 1 nonce, 2 id, 3 key, 4 name of its tenant, 5 the tenant if it is new, 6 id of the key that it
--       replaces, or nothing, 7 that one's revocation, 8.. ids to be forgotten
-- Returns the change | 'unknown' | 'revoked'
if redis.call('HEXISTS', P .. 'keys', ARGV[2]) == 1 then -- sent twice
  return last_change()
end
local old = ARGV[6]
if old ~= '' then
  if redis.call('HEXISTS', P .. 'keys', old) == 0 then
    return 'unknown'
  end
  if redis.call('HEXISTS', P .. 'revoked', old) == 1 then
    return 'revoked'
  end
  revoke(old, ARGV[7])
end
for i = 8, #ARGV do
  for _, hash in ipairs({'keys', 'revoked'}) do
    redis.call('HDEL', P .. hash, ARGV[i])
    redis.call('ZREM', P .. 'touched', hash .. ':' .. ARGV[i])
  end
end
put('keys', ARGV[2], ARGV[3])
if redis.call('HEXISTS', P .. 'tenants', ARGV[4]) == 0 then
  put('tenants', ARGV[4], ARGV[5])
end
return changed(ARGV[1])
