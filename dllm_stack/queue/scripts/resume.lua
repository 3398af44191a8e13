-- needs: waiting
-- Takes back `pause` and `drain`. Safe to repeat.
redis.call('DEL', P .. 'draining')
go_on()
