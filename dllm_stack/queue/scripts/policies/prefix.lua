-- Those that last got a prompt with the longest beginning in common. A job's `prefixes` are hashes of 16
-- hex digits, of ever longer beginnings of its prompt.
POLICIES[#POLICIES + 1] = {
  best = function(job, candidates)
    for start = #job.prefixes - 15, 1, -16 do
      local key = P .. 'prefix:' .. string.sub(job.prefixes, start, start + 15)
      if redis.call('EXISTS', key) == 1 then
        local best = {}
        for _, candidate in ipairs(candidates) do
          local at = redis.call('ZSCORE', key, candidate.name)
          if at and NOW - at < AFFINITY_MS then
            best[#best + 1] = candidate
          end
        end
        if best[1] then
          return best
        end
      end
    end
    return candidates
  end,
  chosen = function(job, worker)
    for start = 1, #job.prefixes, 16 do
      local key = P .. 'prefix:' .. string.sub(job.prefixes, start, start + 15)
      redis.call('ZREMRANGEBYSCORE', key, '-inf', NOW - AFFINITY_MS)
      redis.call('ZADD', key, NOW, worker)
      redis.call('PEXPIRE', key, AFFINITY_MS)
    end
  end,
}
