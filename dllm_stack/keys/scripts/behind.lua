-- ARGV: 1 a change, 2 ms for which a gateway may count on what it knows
-- Returns the gateways that may still go by what was before it, '?' for any that there may be besides; or 'lost'
-- if there is no such change any more
local number = redis.call('ZSCORE', P .. 'history', ARGV[1])
if not number and ARGV[1] ~= last_change() then
  return 'lost'
end
local dead = redis.call('ZRANGE', P .. 'rings', '-inf', NOW, 'BYSCORE')
for _, ring in ipairs(dead) do
  redis.call('ZREM', P .. 'rings', ring)
  redis.call('HDEL', P .. 'heard', ring)
end
local behind = {}
for _, ring in ipairs(redis.call('ZRANGE', P .. 'rings', 0, -1)) do
  if tonumber(redis.call('HGET', P .. 'heard', ring) or -1) < tonumber(number or 0) then
    behind[#behind + 1] = ring
  end
end
if NOW - redis.call('GET', P .. 'born') < tonumber(ARGV[2]) then
  behind[#behind + 1] = '?' -- one that looked before Redis lost all, and has stood still since
end
return behind
