-- Waiting jobs go to free slots: the oldest job first, to the worker with the most free slots.
-- ARGV: most jobs in this call
-- Returns {{id, worker, attempt, ms waited}, ...}
local free = {}
for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE')) do
  local slots = tonumber(redis.call('HGET', P .. 'worker:' .. worker, 'slots') or 0)
  free[#free + 1] = {worker, slots - redis.call('HLEN', P .. 'running:' .. worker)}
end

local dispatched = {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'waiting', 0, ARGV[1] - 1)) do
  local best
  for _, candidate in ipairs(free) do
    if candidate[2] > 0 and (not best or candidate[2] > best[2]) then
      best = candidate
    end
  end
  if not best then
    break
  end
  best[2] = best[2] - 1
  local worker = best[1]
  local job = redis.call('HMGET', job_key(id), 'body', 'bytes', 'order')
  dequeue(id, job[2])
  local attempt = redis.call('HINCRBY', job_key(id), 'attempt', 1)
  redis.call('HINCRBY', job_key(id), 'tries', 1)
  redis.call('HSET', job_key(id), 'state', 'running', 'worker', worker)
  local claim = redis.call('XADD', P .. 'commands:' .. worker, '*',
    'kind', 'claim', 'attempt', attempt, 'body', job[1])
  redis.call('HSET', P .. 'running:' .. worker, id, claim)
  dispatched[#dispatched + 1] = {id, worker, attempt, math.max(0, NOW - math.floor(job[3] / 1000))}
end
if #dispatched == tonumber(ARGV[1]) then
  wake_router()
end
return dispatched
