-- Those that last got a prompt with the longest beginning in common, as long as they run no more tokens above
-- the least than that beginning has: else somebody idle makes it sooner anew. A job's `prefixes` are hashes of
-- 16 hex digits, of ever longer beginnings of its prompt, each twice as long as the one before.
POLICIES[#POLICIES + 1] = {
  best = function(job, candidates)
    local least = math.huge
    for _, candidate in ipairs(candidates) do
      least = math.min(least, candidate.load)
    end
    for start = #job.prefixes - 15, 1, -16 do
      local key, holds = P .. 'prefix:' .. string.sub(job.prefixes, start, start + 15), {}
      for _, worker in ipairs(redis.call('ZRANGE', key, '(' .. NOW - AFFINITY_MS, '+inf', 'BYSCORE')) do
        holds[worker] = true
      end
      local best, saved = {}, FIRST_PREFIX_TOKENS * 2 ^ ((start - 1) / 16)
      for _, candidate in ipairs(next(holds) and candidates or {}) do
        if holds[candidate.name] and candidate.load <= least + saved then
          best[#best + 1] = candidate
        end
      end
      if best[1] then
        return best
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
