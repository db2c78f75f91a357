-- What is the memory of the fleet used for now?
--
-- The account of resident memory by target, added up over the newest snapshot of each process that has one in
-- the last day of the table.
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
      AND taken_at_ms > (SELECT max(taken_at_ms) - 86400000 FROM heapsnap_rows WHERE kind = 'process')
    GROUP BY host, target, boot_id, pid, start_time, name
)
GROUP BY target, name
ORDER BY bytes DESC, target, name
LIMIT 100
