-- needs: leases
-- A worker leaves in good order; jobs it still holds wait again, and cost no try. ARGV: worker
for _, id in ipairs(redis.call('HKEYS', P .. 'running:' .. ARGV[1])) do
  give_back(job_of(id), 'its worker left', true)
end
drop_worker(ARGV[1])
redis.call('DEL', P .. 'drained:' .. ARGV[1], P .. 'paused:' .. ARGV[1])
wake_router()
