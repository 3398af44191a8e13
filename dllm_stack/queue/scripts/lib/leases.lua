-- needs: jobs, workers
-- Jobs that run.

-- Does this worker hold this attempt of the job? If not, it has been fenced off.
local function holds(id, worker, attempt)
  local job = redis.call('HMGET', job_key(id), 'worker', 'attempt')
  return job[1] == worker and job[2] == attempt
end

-- A running job stops to hold its slot. Its tenant pays for the tokens it used instead of the estimate.
local function end_lease(job, used)
  local worker = job.worker
  redis.call('HDEL', P .. 'running:' .. worker, job.id)
  if redis.call('EXISTS', P .. 'running:' .. worker) == 1 then
    redis.call('ZINCRBY', P .. 'load', -job.estimate, worker)
  else
    redis.call('ZREM', P .. 'load', worker)
  end
  if redis.call('HINCRBY', P .. 'running', job.tenant, -1) == 0 then
    redis.call('HDEL', P .. 'running', job.tenant)
  end
  charge(job, used - job.estimate)
  settle_worker(worker)
  settle_tenant(job.tenant)
end

-- What a job that nobody waits for any more has used: nothing, unless a part of its answer was made.
local function used_until_now(job)
  return tonumber(job.tokens) > 0 and job.prompt + job.tokens or 0
end

local function bury(job, reason)
  if DEAD_LETTERS == 0 then
    return
  end
  local dead = P .. 'dead'
  redis.call('XADD', dead, 'MAXLEN', DEAD_LETTERS, '*', 'id', job.id,
    'body', redis.call('GET', P .. 'body:' .. job.id), 'reason', reason, 'attempts', job.attempt)
  redis.call('XTRIM', dead, 'MINID', string.format('%.0f', NOW - DAY))
  redis.call('PEXPIRE', dead, DAY)
end

-- A lease ends without an answer: the job waits again, at the front and with the part of the answer that it
-- has, unless it has cost too many workers already. With `uncounted` this lease costs it no try.
-- Returns what became of it: cancelled | failed | requeued.
local function give_back(job, reason, uncounted)
  if job.cancelled then
    end_lease(job, used_until_now(job))
    forget(job)
    return 'cancelled'
  end
  end_lease(job, 0)
  local tries = job.tries - (uncounted and 1 or 0)
  if tries >= MAX_ATTEMPTS then
    bury(job, reason)
    send_verdict(job, 'worker_lost')
    forget(job)
    return 'failed'
  end
  redis.call('HDEL', job_key(job.id), 'worker')
  redis.call('HSET', job_key(job.id), 'state', 'waiting', 'tries', tries)
  enqueue(job)
  settle_tenant(job.tenant)
  return 'requeued'
end
