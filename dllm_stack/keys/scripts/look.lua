-- Somebody reads what has changed.
-- ARGV: 1 gateway, or nothing, 2 the change that it has in force, or nothing, 3 ms for which it may count on
--       what it knows
-- Returns {change}, or with it 1 if this is all there is and 0 if it is what has changed, and the keys,
-- revocations, tenants and departed, each as fields and values
if ARGV[1] ~= '' then
  redis.call('ZADD', P .. 'rings', NOW + ARGV[3], ARGV[1])
  redis.call('HSET', P .. 'heard', ARGV[1], ARGV[2] ~= '' and number_of(ARGV[2]) or -1)
end
local change = last_change()
if change == ARGV[2] then
  return {change}
end
local hashes = {'keys', 'revoked', 'tenants', 'departed'}
local since = ARGV[2] ~= '' and redis.call('ZSCORE', P .. 'history', ARGV[2])
if not since then
  local result = {change, 1}
  for i, hash in ipairs(hashes) do
    result[2 + i] = redis.call('HGETALL', P .. hash)
  end
  return result
end
local entries = {}
for _, hash in ipairs(hashes) do
  entries[hash] = {}
end
for _, entry in ipairs(redis.call('ZRANGE', P .. 'touched', '(' .. since, '+inf', 'BYSCORE')) do
  local hash, field = string.match(entry, '^(%a+):(.*)$')
  local value = redis.call('HGET', P .. hash, field)
  if value then
    local found = entries[hash]
    found[#found + 1], found[#found + 2] = field, value
  end
end
return {change, 0, entries.keys, entries.revoked, entries.tenants, entries.departed}
