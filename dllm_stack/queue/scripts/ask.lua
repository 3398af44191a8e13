-- A question of a gateway goes to some live worker. ARGV: id, gateway, body
-- Returns 1, or 0 when there is none.
local live = redis.call('ZCOUNT', P .. 'workers', '(' .. NOW, '+inf')
if live == 0 then
  return 0
end
math.randomseed(TIME[2])
local worker = redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE', 'LIMIT', math.random(live) - 1, 1)[1]
redis.call('XADD', P .. 'commands:' .. worker, '*', 'kind', 'question', 'attempt', 0, 'body', ARGV[3])
redis.call('ZADD', P .. 'gateways', NOW + TTL_MS, ARGV[2])
return 1
