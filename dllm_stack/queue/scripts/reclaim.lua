-- needs: leases
-- Jobs of dead workers wait again; jobs of dead gateways are cancelled; jobs whose time is over end. One call
-- ends about AT_ONCE jobs at most.
-- Returns {{worker, what became of each job, ...}, ...}, jobs cancelled with their gateway,
--         is there more (0|1), {reason, jobs, ...} of what happened since the last call
local watched = redis.call('GET', P .. 'watched')
redis.call('SET', P .. 'watched', NOW, 'PX', 10 * MINUTE)

-- Silence is death only where a heartbeat could have been heard. After an outage of Redis, or a jump of
-- its clock, everybody has a whole period to be heard again.
if watched and (NOW < tonumber(watched) or NOW - watched > TTL_MS / 2) then
  for _, kind in ipairs({'workers', 'gateways'}) do
    for _, name in ipairs(redis.call('ZRANGE', P .. kind, 0, -1)) do
      redis.call('ZADD', P .. kind, NOW + TTL_MS, name)
    end
  end
  return {{}, 0, 0, {}}
end

redis.call('PEXPIRE', P .. 'paused', ORDER_KEPT)
redis.call('PEXPIRE', P .. 'draining', ORDER_KEPT)

local left = AT_ONCE

local workers = {}
for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', '-inf', NOW, 'BYSCORE')) do
  local fate = {worker}
  for _, id in ipairs(left > 0 and redis.call('HKEYS', P .. 'running:' .. worker) or {}) do
    if left > 0 then
      fate[#fate + 1] = give_back(job_of(id), 'its worker died')
      left = left - 1
    end
  end
  if redis.call('EXISTS', P .. 'running:' .. worker) == 0 then
    drop_worker(worker)
  end
  workers[#workers + 1] = fate
end

local orphans = 0
for _, gateway in ipairs(redis.call('ZRANGE', P .. 'gateways', '-inf', NOW, 'BYSCORE')) do
  if left > 0 then
    local cancelled = cancel_owned(gateway, left)
    orphans, left = orphans + cancelled, left - cancelled
  end
end

if left > 0 then
  for _, id in ipairs(redis.call('ZRANGE', P .. 'deadlines', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, left)) do
    call_off(job_of(id), 'expired')
    left = left - 1
  end
end

-- A pool that has had no worker for long, and got none in the time in which one could have started.
if redis.call('EXISTS', P .. 'last_worker') == 0 then
  local admitted_before = string.format('%.0f', (NOW - COLD_START_MS) * 1000)
  for _, tier in ipairs(TIERS) do
    local given_up = left > 0 and redis.call('ZRANGE', P .. 'waiting:' .. tier, '-inf', admitted_before,
      'BYSCORE', 'LIMIT', 0, left) or {}
    for _, id in ipairs(given_up) do
      local job = job_of(id)
      send_verdict(job, tonumber(job.attempt) > 0 and 'worker_lost' or 'no_worker')
      leave_queue(job)
      left = left - 1
    end
  end
end

forget_old_dead()
wake_router()
local tallied = redis.call('HGETALL', P .. 'tally')
redis.call('DEL', P .. 'tally')
return {workers, orphans, left > 0 and 0 or 1, tallied}
