-- Functions that every script may use. Tokens are strings of decimal digits, always: Lua's numbers lose integers above 2^53.

-- less compares two tokens: by length, then by bytes.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- add returns the token a plus a number below 10^15, in two parts that are exact.
local function add(a, n)
  local high, low = string.sub(a, 1, -16), string.sub(a, -15) + n
  if low >= 1000000000000000 then
    high, low = (high == '' and 0 or high) + 1, low - 1000000000000000
  end
  if high == '' then return string.format('%d', low) end
  return high .. string.format('%015d', low)
end

-- valid reports whether a token fits into an int64.
local function valid(a) return not less('9223372036854775807', a) end

-- clock returns the server's time in microseconds, as a token and as a number (exact until the year 2255).
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return string.format('%d', us), us
end

-- ahead reports whether a token is more than a day above both the counter (or false) and the clock.
local function ahead(token, counter, now)
  if counter and less(now, counter) then now = counter end
  return less(add(now, 86400000000), token)
end

-- dead reports whether an attempt is among the tombstones (or false). These are short, since every script reads them: 48 bits of
-- each attempt, so that one in 10^13 attempts is refused without need.
local function dead(tombs, attempt)
  return tombs and string.find(tombs, string.sub(attempt, 1, 12) .. ',', 1, true) ~= nil
end

-- bury adds an attempt to the tombstones (or false) and keeps the last 32.
local function bury(tombs, attempt)
  local id = string.sub(attempt, 1, 12) .. ','
  if not tombs then return id end
  if dead(tombs, attempt) then return tombs end
  return id .. string.sub(tombs, 1, 31 * 13)
end

-- expire lets a counter's key live until 7 days after the greater of the clock and the counter.
local function expire(key, counter, now)
  if less(counter, now) then counter = now end
  redis.call('PEXPIREAT', key, string.format('%d', string.sub(counter, 1, -4) + 604800000))
end
