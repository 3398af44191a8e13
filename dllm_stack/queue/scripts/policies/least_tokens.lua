-- Those that run the fewest tokens.
POLICIES[#POLICIES + 1] = {
  best = function(_, candidates)
    local least = math.huge
    for _, candidate in ipairs(candidates) do
      least = math.min(least, candidate.load)
    end
    local best = {}
    for _, candidate in ipairs(candidates) do
      if candidate.load == least then
        best[#best + 1] = candidate
      end
    end
    return best
  end,
}
