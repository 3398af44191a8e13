-- needs: workers
-- A worker gets no more jobs, until it is resumed or leaves. ARGV: worker
redis.call('SET', P .. 'paused:' .. ARGV[1], '1', 'PX', DAY)
settle_worker(ARGV[1])
