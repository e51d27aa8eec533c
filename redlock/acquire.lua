-- KEYS: lock, companion. ARGV: attempt, first, last, last less a day, TTL in ms, Locker that waits or ''.
-- Answers {verdict, counter or '', server time, ms for which the lock remains held}.
local attempt, first, last, floor, ttl, waiter = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local value = attempt .. ':' .. first .. ':' .. last

local function answer(verdict, left)
  if verdict == 'held' and waiter ~= '' and not string.find(queue, waiter .. ' ', 1, true) then
    redis.call('HSET', KEYS[2], 'queue', queue .. waiter .. ' ')
    keep()
  end
  return {verdict, counter, now, string.format('%d', left or 0)}
end

-- A duplicate that arrives after its release must not take the lock again.
if dead(tombs, attempt) then return answer('dead') end

-- A replay gets the same answer and does not move the deadline.
if lock == value then return answer('accepted') end

if lock and not belongs(attempt) then return answer('held', redis.call('PTTL', KEYS[1])) end

local who, left = reserved()
if not lock and who and who ~= waiter then return answer('held', left) end

if counter == '' then
  -- Tokens may have been forgotten: a block must not reach back over them.
  if first ~= last or us > 86400000000 and not less(string.format('%d', us - 86400000000), first) then
    return answer('stale')
  end
elseif not less(counter, first) then
  return answer('stale')
end
if toofar(floor) then return answer('ahead') end

-- The counter first: what a script wrote before a failing command stays written.
counter = last
if queue .. turn == '' then
  redis.call('HSET', KEYS[2], 'counter', counter)
else
  if waiter ~= '' then unqueue(waiter) end
  redis.call('HSET', KEYS[2], 'counter', counter, 'queue', queue, 'turn', '')
end
keep()
redis.call('SET', KEYS[1], value, 'PX', ttl)
return answer('accepted')
