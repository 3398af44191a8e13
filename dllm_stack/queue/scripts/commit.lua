-- needs: streams, fairness
-- A committed block goes to the job's gateway, and into the answer. Safe to repeat.
-- ARGV: 1 id, 2 worker, 3 attempt, 4 tokens before the block, 5 characters before, 6 the block's token ids,
--       7 characters up to its end, 8 body
-- Returns {wanted (0|1), tokens committed}. Not wanted: the worker no longer holds the job, or nobody waits
-- for it. Fewer tokens than the block ends with: Redis has lost some; they are to be sent again from there.
local id, worker, attempt = ARGV[1], ARGV[2], ARGV[3]
local job = job_of(id)
if not job or job.worker ~= worker or job.attempt ~= attempt then
  return {0, 0}
end
local before, there = tonumber(ARGV[4]), tonumber(job.tokens)
if job.cancelled then
  return {0, there}
end
if before ~= there then
  return {1, there}
end
there = redis.call('APPEND', P .. 'answer:' .. id, ARGV[6]) / 4
redis.call('HSET', job_key(id), 'tokens', there, 'characters', ARGV[7])
charge(job, charged(job, there) - charged(job, before))
send(job, worker, ARGV[4], ARGV[5], ARGV[8])
return {1, there}
