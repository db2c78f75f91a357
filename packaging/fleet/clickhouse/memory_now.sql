-- What was the memory of the fleet used for in the last day of the table?
--
-- The account of resident memory by target, added up over the newest snapshot of each process that has one in
-- that day, also of those that have ended since: where processes are replaced during the day, the sums are of more
-- than ran at a time. `processes` says of how many. What lies more than a day ahead of now does not count: a clock was
-- ahead.
SELECT
    target,
    name,
    sum(newest) AS bytes,
    count() AS processes,
    uniqExact(host) AS hosts
FROM
(
    SELECT host, target, boot_id, pid, start_time, name, argMax(bytes, taken_at_ms) AS newest
    FROM heapsnap_rows
    WHERE kind = 'account'
      AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000
      AND taken_at_ms >
          (SELECT max(taken_at_ms) - 86400000
           FROM heapsnap_rows
           WHERE kind = 'process' AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000)
    GROUP BY host, target, boot_id, pid, start_time, name
)
GROUP BY target, name
ORDER BY bytes DESC, target, name
LIMIT 100
