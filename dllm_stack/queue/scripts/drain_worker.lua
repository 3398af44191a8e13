-- needs: workers
-- A worker gets no more jobs, until it leaves. ARGV: worker
if redis.call('EXISTS', P .. 'worker:' .. ARGV[1]) == 1 then
  redis.call('HSET', P .. 'worker:' .. ARGV[1], 'draining', 1)
  settle_worker(ARGV[1])
end
