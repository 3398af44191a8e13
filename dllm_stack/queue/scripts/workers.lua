-- The live workers of a pool.
-- Returns {{card, jobs running, estimated tokens running, failures in a row, set aside until ms or 0,
--          draining by order (0|1)}, ...}
local rows = {}
for i, worker in ipairs(redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE')) do
  local state = redis.call('HMGET', P .. 'worker:' .. worker, 'card', 'failures', 'draining')
  rows[i] = {
    state[1],
    redis.call('HLEN', P .. 'running:' .. worker),
    tonumber(redis.call('ZSCORE', P .. 'load', worker) or 0),
    tonumber(state[2] or 0),
    tonumber(redis.call('ZSCORE', P .. 'set_aside', worker) or 0),
    state[3] and 1 or 0,
  }
end
return rows
