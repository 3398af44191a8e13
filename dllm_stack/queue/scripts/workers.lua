-- needs: workers
-- The live workers of a pool.
-- Returns {{worker, card, slots, jobs running, estimated tokens running, failures in a row,
--          set aside until ms or 0, draining by order (0|1), paused by order (0|1)}, ...}
local rows = {}
for i, worker in ipairs(redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE')) do
  local state = redis.call('HMGET', P .. 'worker:' .. worker, 'card', 'slots', 'failures')
  rows[i] = {
    worker,
    state[1] or '',
    tonumber(state[2] or 0),
    redis.call('HLEN', P .. 'running:' .. worker),
    tonumber(redis.call('ZSCORE', P .. 'load', worker) or 0),
    tonumber(state[3] or 0),
    set_aside_until(worker) or 0,
    redis.call('EXISTS', P .. 'drained:' .. worker),
    redis.call('EXISTS', P .. 'paused:' .. worker),
  }
end
return rows
