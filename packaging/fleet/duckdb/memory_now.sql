-- What was the memory of the fleet used for in the last day of the table?
--
-- The account of resident memory by target, added up over the newest snapshot of each process that has one in
-- that day, also of those that have ended since: where processes are replaced during the day, the sums are of more
-- than ran at a time. `processes` says of how many. What lies more than a day ahead of now does not count: a clock was
-- ahead.
WITH newest AS
(
    SELECT max(taken_at_ms) AS ms
    FROM heapsnap_rows
    WHERE kind = 'process' AND taken_at_ms <= epoch(now()) * 1000 + 86400000
),
accounts AS
(
    SELECT host, target, name, arg_max(bytes, taken_at_ms) AS newest
    FROM heapsnap_rows, newest
    WHERE kind = 'account' AND taken_at_ms > newest.ms - 86400000 AND taken_at_ms <= newest.ms
    GROUP BY host, target, boot_id, pid, start_time, name
)
SELECT
    target,
    name,
    sum(newest) AS bytes,
    count(*) AS processes,
    count(DISTINCT host) AS hosts
FROM accounts
GROUP BY target, name
ORDER BY bytes DESC, target, name
LIMIT 100
