-- needs: jobs
-- A gateway leaves; jobs it still owns are cancelled. To be repeated until it returns 0. ARGV: gateway
-- Returns how many jobs were cancelled.
return cancel_owned(ARGV[1], AT_ONCE)
