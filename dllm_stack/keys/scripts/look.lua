-- Somebody reads what has changed.
-- ARGV: 1 gateway, or nothing, 2 the change that it has in force, or nothing, 3 ms for which it may count on
--       what it knows
-- Returns {change} | {change, keys, revoked, tenants, departed}
if ARGV[1] ~= '' then
  redis.call('ZADD', P .. 'rings', NOW + ARGV[3], ARGV[1])
  redis.call('HSET', P .. 'heard', ARGV[1], ARGV[2] ~= '' and number_of(ARGV[2]) or -1)
end
local change = last_change()
if change == ARGV[2] then
  return {change}
end
return {
  change,
  redis.call('HGETALL', P .. 'keys'),
  redis.call('HGETALL', P .. 'revoked'),
  redis.call('HGETALL', P .. 'tenants'),
  redis.call('HGETALL', P .. 'departed'),
}
