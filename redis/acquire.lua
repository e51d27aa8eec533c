-- What acquire_hot.lua leaves over; see there for keys, arguments and replies.
local function left() return string.format('%d', redis.call('PTTL', lock)) end

if value and string.sub(value, 1, #me + 1) == me .. ':' then -- a replay: the same block, and the deadline stays
  local first, last = string.sub(value, #me + 2), redis.call('HGET', companion, 'c')
  if not last or less(last, first) then last = first end
  return {'granted', first, last, left()}
end
if value and how == '' and min == '0' then return {'held', left()} end

if value then counter, tombs, queue = unpack(redis.call('HMGET', companion, 'c', 't', 'q')) end
if dead(tombs, me) then return {'dead'} end -- a delayed duplicate must not bring a dead attempt back
local now, us = clock()
if ahead(min, counter, now) then return {'ahead', now} end

if value then
  if how == '' then return {'held', left()} end
  if not string.find(value, '^%x+:%d+$') then -- a plain SET NX client, which passes nothing on
    if queue and leave(queue, me) ~= queue then redis.call('HSET', companion, 'q', leave(queue, me)) end
    return {'foreign', left()}
  end
  queue = queue or ''
  local registered = string.match(queue, me .. ' %d+ %d+ %d+ (%d+) ')
  if not registered then
    local entry = me .. ' ' .. ttl .. ' ' .. n .. ' ' .. min .. ' ' .. number .. ' ' .. how .. ';'
    redis.call('HSET', companion, 'q', queue .. entry)
    if not counter then expire(companion, now, now) end
    registered = number
  end
  return {'queued', left(), registered}
end

if queue and queue ~= '' then
  local rest, passed = queue, false
  if string.sub(how, 1, 1) ~= 'w' then -- the lock has run out: those who came first are served first
    rest, counter, passed = pass(lock, companion, queue, counter, now, us, me)
  end
  if passed then
    if how == '' then return {'held', left()} end
    local mine = string.match(rest, me .. ' %d+ %d+ %d+ (%d+) ')
    if not mine then
      mine = number
      redis.call('HSET', companion, 'q', rest .. me .. ' ' .. ttl .. ' ' .. n .. ' ' .. min .. ' ' .. number .. ' ' .. how .. ';')
    end
    return {'queued', left(), mine}
  end
  queue = leave(rest, me)
else
  queue = nil
end
local first, last = grant(lock, companion, queue, counter, me, ttl, n, min, now, us)
if not first then
  redis.call('DEL', lock)
  return {'full'}
end
return {'granted', first, last, ttl}
