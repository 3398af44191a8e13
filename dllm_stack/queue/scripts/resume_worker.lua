-- needs: waiting, workers
-- Takes back `pause_worker`. ARGV: worker
-- Returns 1, or 0 when it gets no jobs all the same: it was told to drain.
redis.call('DEL', P .. 'paused:' .. ARGV[1])
settle_worker(ARGV[1])
wake_router()
return 1 - redis.call('EXISTS', P .. 'drained:' .. ARGV[1])
