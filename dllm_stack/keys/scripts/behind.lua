-- ARGV: 1 number of a change
-- Returns the gateways that may still go by what was before it, or 'lost' if this change is not there any more
if number_of(last_change()) < tonumber(ARGV[1]) then
  return 'lost'
end
local dead = redis.call('ZRANGE', P .. 'rings', '-inf', NOW, 'BYSCORE')
for _, ring in ipairs(dead) do
  redis.call('ZREM', P .. 'rings', ring)
  redis.call('HDEL', P .. 'heard', ring)
end
local behind = {}
for _, ring in ipairs(redis.call('ZRANGE', P .. 'rings', 0, -1)) do
  if tonumber(redis.call('HGET', P .. 'heard', ring) or -1) < tonumber(ARGV[1]) then
    behind[#behind + 1] = ring
  end
end
return behind
