-- The worker that the job's session went to last.
POLICIES[#POLICIES + 1] = {
  best = function(job, candidates)
    local last = job.session ~= '' and redis.call('GET', P .. 'session:' .. job.session)
    for _, candidate in ipairs(candidates) do
      if candidate.name == last then
        return {candidate}
      end
    end
    return candidates
  end,
  chosen = function(job, worker)
    if job.session ~= '' then
      redis.call('SET', P .. 'session:' .. job.session, worker, 'PX', AFFINITY_MS)
    end
  end,
}
