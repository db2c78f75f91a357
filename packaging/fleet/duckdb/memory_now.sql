-- What is the memory of the fleet used for now?
--
-- The account of resident memory by target, added up over the newest snapshot of each process that has one in
-- the last day of the table.
WITH newest AS (SELECT max(taken_at_ms) AS ms FROM heapsnap_rows WHERE kind = 'process'),
accounts AS
(
    SELECT host, target, name, arg_max(bytes, taken_at_ms) AS newest
    FROM heapsnap_rows, newest
    WHERE kind = 'account' AND taken_at_ms > newest.ms - 86400000
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
