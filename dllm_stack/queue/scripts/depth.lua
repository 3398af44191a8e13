-- Figures of a pool.
-- Returns {running, slots, live workers, those set aside, dead letters,
--          paused (0|1), draining (0|1), for each tier {jobs waiting, their bytes, ms of the oldest}}
local running, slots = 0, 0
local workers = redis.call('ZRANGE', P .. 'workers', '(' .. NOW, '+inf', 'BYSCORE')
for _, worker in ipairs(workers) do
  running = running + redis.call('HLEN', P .. 'running:' .. worker)
  slots = slots + tonumber(redis.call('HGET', P .. 'worker:' .. worker, 'slots') or 0)
end
local tiers = {}
for i, tier in ipairs(TIERS) do
  local oldest = redis.call('ZRANGE', P .. 'waiting:' .. tier, 0, 0, 'WITHSCORES')[2]
  tiers[i] = {
    redis.call('ZCARD', P .. 'waiting:' .. tier),
    tonumber(redis.call('HGET', P .. 'waiting_bytes', tier) or 0),
    oldest and math.max(0, NOW - math.floor(oldest / 1000)) or 0,
  }
end
return {
  running, slots, #workers, redis.call('ZCARD', P .. 'set_aside'), redis.call('XLEN', P .. 'dead'),
  redis.call('EXISTS', P .. 'paused'), redis.call('EXISTS', P .. 'draining'), tiers,
}
