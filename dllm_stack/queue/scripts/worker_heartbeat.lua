-- needs: leases
-- A worker lives, has so many slots and runs these jobs.
-- ARGV: worker, card, slots, last command read, ids it runs ...
-- Returns the ids it runs without a lease: it must stop them.
local worker, acked = ARGV[1], ARGV[4]
redis.call('ZADD', P .. 'workers', NOW + TTL_MS, worker)
redis.call('HSET', P .. 'worker:' .. worker, 'card', ARGV[2], 'slots', ARGV[3])
redis.call('SET', P .. 'last_worker', '1', 'PX', TTL_MS + GRACE_MS)
redis.call('PEXPIRE', P .. 'drained:' .. worker, DAY)
redis.call('PEXPIRE', P .. 'paused:' .. worker, DAY)
trim(P .. 'commands:' .. worker, acked)

local leases = redis.call('HGETALL', P .. 'running:' .. worker)
local held, leased = {}, {}
for i = 5, #ARGV do
  held[ARGV[i]] = true
end
for i = 1, #leases, 2 do
  local id, claim = leases[i], leases[i + 1]
  leased[id] = true
  -- It has read the claim and yet does not run the job: the job must not wait for ever.
  if not held[id] and not_after(claim, acked) then
    give_back(job_of(id), 'a worker could not read it')
  end
end
settle_worker(worker)
wake_router()

local strays = {}
for id in pairs(held) do
  if not leased[id] then
    strays[#strays + 1] = id
    -- A Redis that lost its last second may have lost this very attempt: the next must not be its twin,
    -- which the end of this one would end.
    if redis.call('HGET', job_key(id), 'state') == 'waiting' then
      redis.call('HINCRBY', job_key(id), 'attempt', 1)
    end
  end
end
return strays
