-- What release_hot.lua leaves over; see there for keys, arguments and replies.
-- A holder that hears "again" takes it that its own release has come twice, so one that was broken must not.
local again = dead(tombs, me) and not dead(redis.call('HGET', companion, 'b'), me)
if queue and queue ~= '' then
  local rest = leave(queue, me)
  redis.call('HSET', companion, 't', bury(tombs, me), 'q', rest)
  if mine and rest ~= '' then
    local now, us = clock()
    local left, last, passed = pass(lock, companion, rest, counter, now, us, me)
    counter = last
    if not passed then
      redis.call('HSET', companion, 'q', left)
      redis.call('DEL', lock)
    end
  end
elseif not again then
  redis.call('HSET', companion, 't', bury(tombs, me))
end
if not counter then redis.call('PEXPIRE', companion, 600000) end
if mine then return {'released'} end
if again then return {'again'} end
return {value and 'taken' or 'gone'}
