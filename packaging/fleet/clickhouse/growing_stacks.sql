-- Which call stacks hold ever more memory over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for the live bytes of each stack. `name` is the function that is charged, `frames` are
-- the callers, innermost first.
SELECT id, name, bytes_per_day, processes, growing, hosts, bytes_now, frames
FROM
(
    SELECT
        id,
        any(called) AS name,
        sum(per_day) AS bytes_per_day,
        count() AS processes,
        countIf(per_day > 0) AS growing,
        uniqExact(host) AS hosts,
        sum(last_bytes) AS bytes_now
    FROM
    (
        SELECT
            host,
            id,
            any(charged) AS called,
            covarPop(day, toFloat64(bytes)) / varPop(day) AS per_day,
            argMax(bytes, day) AS last_bytes
        FROM
        (
            SELECT
                host, target, boot_id, pid, start_time, id, name AS charged, bytes,
                (taken_at_ms - (SELECT max(taken_at_ms) FROM heapsnap_rows WHERE kind = 'process')) / 86400000 AS day
            FROM heapsnap_rows
            WHERE kind = 'stack'
              AND taken_at_ms > (SELECT max(taken_at_ms) - 604800000 FROM heapsnap_rows WHERE kind = 'process')
        )
        GROUP BY host, target, boot_id, pid, start_time, id
        HAVING count() >= 5
    )
    GROUP BY id
    ORDER BY bytes_per_day DESC, id
    LIMIT 50
) AS growth
ANY LEFT JOIN (SELECT id, frames FROM heapsnap_stacks) AS known USING id
ORDER BY bytes_per_day DESC, id
