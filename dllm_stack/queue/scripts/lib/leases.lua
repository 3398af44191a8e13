-- needs: jobs, workers
-- Jobs that run.

-- Does this worker hold this attempt of the job? If not, it has been fenced off.
local function holds(id, worker, attempt)
  local job = redis.call('HMGET', job_key(id), 'worker', 'attempt')
  return job[1] == worker and job[2] == attempt
end

-- What a lease has cost that ends now: its prompt, the tokens it has committed, and the block it was at.
local function used_until_now(job)
  return job.prompt + job.tokens - job.begun + BLOCK_TOKENS
end

-- A running job stops to hold its slot. Its tenant pays for the tokens this lease used instead of those that
-- it was charged for: the estimate, and what was committed beyond it.
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
  charge(job, used - charged(job, job.tokens))
  settle_worker(worker)
  settle_tenant(job.tenant)
end

local function forget_old_dead()
  redis.call('XTRIM', P .. 'dead', 'MINID', string.format('%.0f', NOW - DAY))
end

local function bury(job, reason)
  if DEAD_LETTERS == 0 then
    return
  end
  local letter = {'id', job.id, 'tenant', job.tenant, 'reason', reason, 'attempts', job.attempt}
  if tonumber(job.bytes) <= DEAD_LETTER_BYTES then
    letter[#letter + 1] = 'body'
    letter[#letter + 1] = redis.call('GET', P .. 'body:' .. job.id)
  end
  redis.call('XADD', P .. 'dead', 'MAXLEN', DEAD_LETTERS, '*', unpack(letter))
  forget_old_dead()
  redis.call('PEXPIRE', P .. 'dead', DAY)
end

-- A lease ends without an answer: the job waits again, at the front and with the part of the answer that it
-- has, unless it has cost too many workers already. With `uncounted` this lease costs it no try, and if
-- nothing was committed its engine never saw the job, and its tenant pays nothing.
-- Returns what became of it: cancelled | failed | requeued.
local function give_back(job, reason, uncounted)
  end_lease(job, uncounted and job.tokens == job.begun and 0 or used_until_now(job))
  if job.cancelled then
    forget(job)
    return 'cancelled'
  end
  local tries = job.tries - (uncounted and 1 or 0)
  if tries >= MAX_ATTEMPTS then
    bury(job, reason)
    send_verdict(job, 'worker_lost')
    forget(job)
    return 'failed'
  end
  redis.call('HDEL', job_key(job.id), 'worker')
  redis.call('HSET', job_key(job.id), 'state', 'waiting', 'tries', tries)
  if not uncounted then
    redis.call('HSET', job_key(job.id), 'failed_on', job.worker)
  end
  enqueue(job)
  settle_tenant(job.tenant)
  return 'requeued'
end
