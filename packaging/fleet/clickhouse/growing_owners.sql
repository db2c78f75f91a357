-- What keeps ever more memory alive over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for what each root retains: a variable (`g_cache`), a thread's stack
-- (`worker, in handle_request()`), a mapping. Of snapshots that have references.
SELECT
    name,
    sum(per_day) AS bytes_per_day,
    count() AS processes,
    countIf(per_day > 0) AS growing,
    uniqExact(host) AS hosts,
    sum(last_bytes) AS bytes_now
FROM
(
    SELECT
        host,
        name,
        covarPop(day, toFloat64(bytes)) / varPop(day) AS per_day,
        argMax(bytes, day) AS last_bytes
    FROM
    (
        SELECT
            host, target, boot_id, pid, start_time, name, bytes,
            (taken_at_ms - (SELECT max(taken_at_ms) FROM heapsnap_rows WHERE kind = 'process')) / 86400000 AS day
        FROM heapsnap_rows
        WHERE kind = 'owner'
          AND taken_at_ms > (SELECT max(taken_at_ms) - 604800000 FROM heapsnap_rows WHERE kind = 'process')
    )
    GROUP BY host, target, boot_id, pid, start_time, name
    HAVING count() >= 5
)
GROUP BY name
ORDER BY bytes_per_day DESC, name
LIMIT 50
