-- Streams: replies to gateways, commands to workers.

local function tally(reason)
  redis.call('HINCRBY', P .. 'tally', reason, 1)
  redis.call('PEXPIRE', P .. 'tally', 10 * MINUTE)
end

-- With what an answer begins goes what it has waited for, in microseconds.
local function send(job, worker, tokens, characters, body)
  local reply = {'job', job.id, 'worker', worker, 'attempt', job.attempt, 'tokens', tokens,
    'characters', characters, 'body', body}
  if tokens == '0' and job.dispatched then
    reply[#reply + 1] = 'waiting'
    reply[#reply + 1] = string.format('%.0f', math.max(0, job.dispatched - job.order))
    reply[#reply + 1] = 'running'
    reply[#reply + 1] = string.format('%.0f', math.max(0, TIME[1] * 1000000 + TIME[2] - job.dispatched))
  end
  redis.call('XADD', P .. 'replies:' .. job.gateway, '*', unpack(reply))
end

-- The queue itself ends a job: expired | shed | no_worker | worker_lost | revoked. The attempt is above all
-- others.
local function send_verdict(job, reason, waiting, interval)
  redis.call('XADD', P .. 'replies:' .. job.gateway, '*', 'job', job.id, 'worker', '',
    'attempt', job.attempt + 1, 'tokens', job.tokens, 'characters', job.characters,
    'reason', reason, 'waiting', waiting or 0, 'interval', interval or 0)
  tally(reason)
end

-- Entries up to and including this id have been read.
local function trim(stream, acked)
  local ms, seq = string.match(acked, '^(%d+)-(%d+)$')
  if redis.call('EXISTS', stream) == 1 then
    redis.call('XTRIM', stream, 'MINID', ms .. '-' .. string.format('%.0f', seq + 1))
  end
end

local function not_after(id, limit)
  local a_ms, a_seq = string.match(id, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(limit, '^(%d+)-(%d+)$')
  a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
  return a_ms < b_ms or (a_ms == b_ms and tonumber(a_seq) <= tonumber(b_seq))
end
