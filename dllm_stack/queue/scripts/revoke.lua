-- needs: jobs
-- An operator ends a job, and its client is told. ARGV: id
-- Returns 1, or 0 when nobody waits for such a job.
local job = job_of(ARGV[1])
if not job or job.cancelled then
  return 0
end
call_off(job, 'revoked')
return 1
