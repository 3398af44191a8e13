-- Streams: replies to gateways, commands to workers.

local function tally(reason)
  redis.call('HINCRBY', P .. 'tally', reason, 1)
  redis.call('PEXPIRE', P .. 'tally', 10 * MINUTE)
end

local function send(gateway, id, worker, attempt, tokens, characters, body)
  redis.call('XADD', P .. 'replies:' .. gateway, '*', 'job', id, 'worker', worker, 'attempt', attempt,
    'tokens', tokens, 'characters', characters, 'body', body)
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
