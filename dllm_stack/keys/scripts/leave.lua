-- ARGV: 1 gateway
redis.call('ZREM', P .. 'rings', ARGV[1])
redis.call('HDEL', P .. 'heard', ARGV[1])
