-- Jobs of dead workers wait again; jobs of dead gateways are cancelled.
-- ARGV: most tries of a job, lost body, exhausted body, heartbeat ttl ms
-- Returns {{worker, what became of each job, ...}, ...}, jobs cancelled with their gateway
local watched, ttl = redis.call('GET', P .. 'watched'), tonumber(ARGV[4])
redis.call('SET', P .. 'watched', NOW, 'PX', 10 * MINUTE)

-- Silence is death only where a heartbeat could have been heard. After an outage of Redis, or a jump of
-- its clock, everybody has a whole period to be heard again.
if watched and (NOW < tonumber(watched) or NOW - watched > ttl / 2) then
  for _, kind in ipairs({'workers', 'gateways'}) do
    for _, name in ipairs(redis.call('ZRANGE', P .. kind, 0, -1)) do
      redis.call('ZADD', P .. kind, NOW + ttl, name)
    end
  end
  return {{}, 0}
end

local workers = {}
for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', '-inf', NOW, 'BYSCORE')) do
  local fate = {worker}
  for _, id in ipairs(redis.call('HKEYS', P .. 'running:' .. worker)) do
    fate[#fate + 1] = give_back(id, ARGV[1], ARGV[2], ARGV[3])
  end
  drop_worker(worker)
  workers[#workers + 1] = fate
end
local orphans = 0
for _, gateway in ipairs(redis.call('ZRANGE', P .. 'gateways', '-inf', NOW, 'BYSCORE')) do
  orphans = orphans + drop_gateway(gateway)
end
return {workers, orphans}
