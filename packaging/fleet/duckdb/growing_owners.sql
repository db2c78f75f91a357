-- What keeps ever more memory alive over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for what each root retains: a variable (`g_cache`), a thread's stack
-- (`worker, in handle_request()`), a mapping. Of snapshots that have references.
WITH newest AS (SELECT max(taken_at_ms) AS ms FROM heapsnap_rows WHERE kind = 'process'),
slopes AS
(
    SELECT
        host,
        name,
        regr_slope(bytes, (taken_at_ms - newest.ms) / 86400000) AS per_day,
        arg_max(bytes, taken_at_ms) AS last_bytes
    FROM heapsnap_rows, newest
    WHERE kind = 'owner' AND taken_at_ms > newest.ms - 604800000
    GROUP BY host, target, boot_id, pid, start_time, name
    HAVING count(*) >= 5
)
SELECT
    name,
    sum(per_day) AS bytes_per_day,
    count(*) AS processes,
    count(*) FILTER (per_day > 0) AS growing,
    count(DISTINCT host) AS hosts,
    sum(last_bytes) AS bytes_now
FROM slopes
GROUP BY name
ORDER BY bytes_per_day DESC, name
LIMIT 50
