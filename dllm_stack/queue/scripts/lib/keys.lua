-- Placed before every script. All keys of a pool begin with KEYS[1], "dllm:{pool}:", whose braces put
-- them into one cluster slot. Times are Redis time in milliseconds, `order` in microseconds. A tier is
-- priority | default | flex; <t> stands for one, <n> for a tenant, <w> for a worker, <g> for a gateway.
--
-- Jobs, until their end
--   job:<id>           hash    gateway, tenant, tier, weight and limit (its tenant's, 0 for no limit), prompt
--                              and estimate (tokens: of the prompt, and with the answer), bytes, order,
--                              deadline (0: none), session and prefixes (hashes, may be empty),
--                              state (waiting | running), attempt, tries, tokens and characters (committed),
--                              worker, begun and dispatched (while it runs; tokens that it began with, time in
--                              microseconds), failed_on (the worker), cancelled (once nobody waits for it),
--                              request (its id, if that is not the job's) and trace (a traceparent)
--   body:<id>          string  the job itself. Apart from the hash, which stays small and so is kept packed
--   answer:<id>        string  the token ids committed, each 4 bytes, little-endian
--   deadlines          zset    id -> time at which it expires
--
-- The order of those that wait
--   waiting:<t>        zset    id -> order: the time of admission, kept when a job comes back
--   line:<t>:<n>       zset    the same of one tenant: who is next among its own
--   held:<s>:<m>       zset    tenant -> what it has waiting; s: pool | <t>, m: jobs | bytes
--   ready:<t>          zset    tenant -> virtual time of its next start, in tokens by weight; of those that
--                              have jobs waiting here and may run one more
--   tags:<t>           zset    the same of the others that are ahead: going and coming is no gain
--   fair               hash    <t>: the tier's virtual time; turn: jobs dispatched so far
--   waiting_bytes      hash    pool, <t>: bytes of the bodies
--   wake               list    at most one element; routers sleep on it
--   paused             string  there when no job is dispatched, by order
--   draining           string  there when no new job is taken, by order
--   drain              hash    at, interval: time of the last end if somebody waited then, smoothed time
--                              between two ends
--
-- Workers
--   workers            zset    worker -> time at which it counts as dead
--   worker:<w>         hash    card, slots, failures (in a row), trips (how often it was set aside since it
--                              last completed a job)
--   drained:<w>        string  there when it gets no more jobs, by order; it outlives a lost heartbeat
--   paused:<w>         string  the same of an order that can be taken back
--   running:<w>        hash    id -> id of the claim in commands:<w>: the leases, and the busy slots
--   running            hash    tenant -> its leases
--   free               zset    worker -> free slots, of those that have any
--   load               zset    worker -> estimated tokens of the jobs it runs
--   set_aside          zset    worker -> until when; then it gets one job at a time until one completes
--   commands:<w>       stream  claims, cancels and questions, trimmed by the worker's heartbeat
--   session:<hash>     string  the worker that a session last went to
--   prefix:<hash>      zset    worker -> when it last got a prompt that begins so
--   last_worker        string  there while the pool has, or has just had, a worker
--
-- Gateways
--   gateways           zset    gateway -> time at which it counts as dead
--   owned:<g>          set     the jobs of a gateway
--   replies:<g>        stream  committed blocks, ends and what questions asked for, trimmed by the gateway's heartbeat
--
-- What is left behind
--   watched            string  time of the last look for dead workers and gateways
--   tally              hash    what happened since a router last asked: reason -> jobs
--   dead               stream  jobs that lost all their workers: id, tenant, reason, attempts, body (if not large)

local P = KEYS[1]
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local MINUTE = 60000
local DAY = 1440 * MINUTE
local ORDER_KEPT = 30 * DAY -- without a router
local TIERS = {'priority', 'default', 'flex'}

local function job_key(id)
  return P .. 'job:' .. id
end

-- All fields of a job, as strings, and its id; nil when there is no such job.
local function job_of(id)
  local fields = redis.call('HGETALL', job_key(id))
  if not fields[1] then
    return nil
  end
  local job = {id = id}
  for i = 1, #fields, 2 do
    job[fields[i]] = fields[i + 1]
  end
  return job
end

local function anything_waits()
  return redis.call('EXISTS', P .. 'waiting:priority', P .. 'waiting:default', P .. 'waiting:flex') > 0
end
