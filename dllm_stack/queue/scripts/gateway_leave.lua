-- A gateway leaves; jobs it still owns are cancelled. ARGV: gateway
drop_gateway(ARGV[1])
