-- Jobs of dead workers wait again; jobs of dead gateways are cancelled.
-- ARGV: most tries of a job, lost body, exhausted body
-- Returns {{worker, what became of each job, ...}, ...}, jobs cancelled with their gateway
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
