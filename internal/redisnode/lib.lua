-- Functions that every script may use. Tokens are strings of decimal digits, always: Lua's numbers lose integers above 2^53.

-- less compares two tokens: by length, then by bytes.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- clock returns the server's time in microseconds, as a token and as a number (exact until the year 2255).
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return string.format('%d', us), us
end

-- dead reports whether an attempt is among the tombstones.
local function dead(tombs, attempt)
  return tombs and string.find(tombs, attempt .. ',', 1, true) ~= nil
end

-- bury adds an attempt to the tombstones and keeps the last 32.
local function bury(tombs, attempt)
  if not tombs then return attempt .. ',' end
  if dead(tombs, attempt) then return tombs end
  return attempt .. ',' .. string.sub(tombs, 1, 31 * (#attempt + 1))
end

-- expire lets a counter's key live until 7 days after the greater of the server's time and the counter.
local function expire(key, counter, now)
  if less(counter, now) then counter = now end
  redis.call('PEXPIREAT', key, string.format('%d', string.sub(counter, 1, -4) + 604800000))
end
