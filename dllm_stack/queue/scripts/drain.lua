-- needs: waiting
-- No new job is taken, and those that are there are served, until `resume`. Safe to repeat.
redis.call('SET', P .. 'draining', '1', 'PX', ORDER_KEPT)
go_on()
