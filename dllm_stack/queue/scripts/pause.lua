-- Waiting jobs wait, new ones are taken, running ones go on, until `resume` or `drain`. Safe to repeat.
redis.call('SET', P .. 'paused', '1', 'PX', ORDER_KEPT)
