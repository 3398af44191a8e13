-- A job enters the queue, or is refused. Safe to repeat.
-- ARGV: id, body, gateway, stream (0|1), attempts so far, most jobs, most bytes, gateway ttl ms
-- Returns {'ok'} | {'full', jobs waiting, ms between two ends or 0} | {'no_worker'}
local id, body, gateway = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', job_key(id)) == 1 then
  return {'ok'}
end
if redis.call('EXISTS', P .. 'last_worker') == 0 then
  return {'no_worker'}
end
local waiting = redis.call('ZCARD', P .. 'waiting')
local bytes = tonumber(redis.call('GET', P .. 'waiting_bytes') or 0)
if waiting >= tonumber(ARGV[6]) or bytes + #body > tonumber(ARGV[7]) then
  return {'full', waiting, math.floor(redis.call('HGET', P .. 'drain', 'interval') or 0)}
end

-- Behind everybody who waits, even when the clock has gone back.
local order = TIME[1] * 1000000 + TIME[2]
local last = redis.call('ZRANGE', P .. 'waiting', -1, -1, 'WITHSCORES')
if last[2] then
  order = math.max(order, last[2] + 1)
end
order = string.format('%.0f', order)
redis.call('HSET', job_key(id), 'body', body, 'bytes', #body, 'gateway', gateway, 'stream', ARGV[4],
  'order', order, 'state', 'waiting', 'attempt', ARGV[5], 'tries', 0, 'blocks', 0)
enqueue(id, order, #body)
redis.call('SADD', P .. 'owned:' .. gateway, id)
redis.call('ZADD', P .. 'gateways', NOW + ARGV[8], gateway)
wake_router()
return {'ok'}
