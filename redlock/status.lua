-- KEYS: lock, companion.
-- Answers {attempt:first:last or what else holds the lock, ms for which it remains held, counter or '', queue}.
return {lock or '', string.format('%d', redis.call('PTTL', KEYS[1])), counter, queue}
