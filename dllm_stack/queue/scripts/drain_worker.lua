-- needs: workers
-- A worker gets no more jobs, until it leaves. ARGV: worker
redis.call('SET', P .. 'drained:' .. ARGV[1], '1', 'PX', DAY)
settle_worker(ARGV[1])
