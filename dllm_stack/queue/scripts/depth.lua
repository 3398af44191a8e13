-- Figures of a pool. Returns {waiting, bytes waiting, ms of the oldest, running, slots, live workers}
local oldest = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
local running, slots, workers = 0, 0, redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE')
for _, worker in ipairs(workers) do
  running = running + redis.call('HLEN', P .. 'running:' .. worker)
  slots = slots + tonumber(redis.call('HGET', P .. 'worker:' .. worker, 'slots') or 0)
end
return {
  redis.call('ZCARD', P .. 'waiting'),
  tonumber(redis.call('GET', P .. 'waiting_bytes') or 0),
  oldest[2] and math.max(0, NOW - math.floor(oldest[2] / 1000)) or 0,
  running, slots, #workers,
}
