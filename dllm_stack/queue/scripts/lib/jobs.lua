-- needs: streams, fairness, waiting
-- Jobs that end though nobody has answered them.

local function forget(job)
  redis.call('DEL', job_key(job.id), P .. 'body:' .. job.id, P .. 'answer:' .. job.id)
  redis.call('SREM', P .. 'owned:' .. job.gateway, job.id)
  redis.call('ZREM', P .. 'deadlines', job.id)
  forget_shares_when_idle()
end

-- A waiting job ends unanswered.
local function leave_queue(job)
  dequeue(job)
  settle_tenant(job.tenant)
  forget(job)
end

local function stop_worker(job)
  redis.call('HSET', job_key(job.id), 'cancelled', 1)
  redis.call('ZREM', P .. 'deadlines', job.id)
  redis.call('XADD', P .. 'commands:' .. job.worker, '*', 'kind', 'cancel', 'job', job.id,
    'attempt', job.attempt)
end

-- Nobody waits for this job any more. A waiting one leaves at once; a running one keeps its slot until its
-- worker has stopped the engine and says so.
local function cancel(id)
  local job = job_of(id)
  if not job then
    return
  end
  if job.state == 'waiting' then
    leave_queue(job)
  elseif not job.cancelled then
    stop_worker(job)
  end
end

-- A job ends though its client still waits, and the client is told why.
local function call_off(job, reason)
  send_verdict(job, reason)
  if job.state == 'waiting' then
    leave_queue(job)
  else
    stop_worker(job)
  end
end

-- Cancels jobs of a gateway that is gone, at most so many. Returns how many.
local function cancel_owned(gateway, at_most)
  local ids = redis.call('SPOP', P .. 'owned:' .. gateway, at_most)
  for _, id in ipairs(ids) do
    cancel(id)
  end
  if redis.call('EXISTS', P .. 'owned:' .. gateway) == 0 then
    redis.call('ZREM', P .. 'gateways', gateway)
    redis.call('DEL', P .. 'replies:' .. gateway)
  end
  return #ids
end
