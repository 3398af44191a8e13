-- Returns Redis time in milliseconds, by which all times of the queue go.
return NOW
