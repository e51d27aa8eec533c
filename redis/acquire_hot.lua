-- KEYS: lock, companion. ARGV: attempt, TTL (ms), tokens, min token, how+locker to wait with or '', number of this registration.
-- Replies: granted first last ms-left | held ms-left | queued ms-left number | foreign ms-left | dead | ahead limit | full
-- The usual case comes first and makes do without functions, since making them costs more than all the rest.
local lock, companion = KEYS[1], KEYS[2]
local me, ttl, n, min, how, number = unpack(ARGV)

local value = redis.call('GET', lock)
local counter, tombs, queue
if not value then
  counter, tombs, queue = unpack(redis.call('HMGET', companion, 'c', 't', 'q'))
  if counter and min == '0' and (not queue or queue == '')
    and not (tombs and string.find(tombs, string.sub(me, 1, 12) .. ',', 1, true)) then
    local t = redis.call('TIME')
    local us = t[1] * 1000000 + t[2]
    local now = string.format('%d', us)
    if #counter == #now and counter < now then -- so it is below 2^53, and exact as a number
      local first = string.format('%d', math.max(counter + 1, us - n + 1)) -- see block
      redis.call('HSET', companion, 'c', now)
      redis.call('PEXPIREAT', companion, string.format('%d', string.sub(now, 1, -4) + 604800000)) -- see expire
      redis.call('SET', lock, me .. ':' .. first, 'PX', ttl)
      return {'granted', first, now, ttl}
    end
  end
end
