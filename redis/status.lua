-- KEYS: lock, companion.
-- Replies: value or '', ms-left, counter or '0', waiters
local counter, queue = unpack(redis.call('HMGET', KEYS[2], 'c', 'q'))
local _, waiters = string.gsub(queue or '', ';', '')
return {
  redis.call('GET', KEYS[1]) or '', string.format('%d', redis.call('PTTL', KEYS[1])),
  counter or '0', string.format('%d', waiters),
}
