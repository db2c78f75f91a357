-- Which call stacks hold ever more memory over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for the live bytes of each stack, of snapshots of tracked processes: those where the account
-- has memory of the tracker. `name` is the function that is charged, `frames` are the callers, innermost first.
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
            host, id, called,
            (sum_xy - sum_x * sum_y / n) / (sum_xx - sum_x * sum_x / n) AS per_day,
            if(newest_day = last_day, newest_bytes, 0) AS last_bytes
        FROM
        (
            SELECT
                host, target, boot, pid, started, id,
                any(charged) AS called,
                sum(toFloat64(bytes)) AS sum_y,
                sum(day * bytes) AS sum_xy,
                max(day) AS newest_day,
                argMax(bytes, day) AS newest_bytes
            FROM
            (
                SELECT
                    host, target, ifNull(boot_id, '') AS boot, pid, ifNull(start_time, 0) AS started, id, name AS charged, bytes,
                    (taken_at_ms - newest) / 86400000 AS day,
                    (SELECT max(taken_at_ms)
                     FROM heapsnap_rows
                     WHERE kind = 'process' AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000) AS newest
                FROM heapsnap_rows
                WHERE kind = 'stack'
                  AND taken_at_ms > newest - 604800000 AND taken_at_ms <= newest
            )
            GROUP BY host, target, boot, pid, started, id
        ) AS figures
        ALL INNER JOIN
        (
            SELECT
                host, target, boot, pid, started,
                count() AS n,
                sum(day) AS sum_x,
                sum(day * day) AS sum_xx,
                max(day) AS last_day
            FROM
            (
                SELECT
                    host, target, ifNull(boot_id, '') AS boot, pid, ifNull(start_time, 0) AS started,
                    (taken_at_ms - newest) / 86400000 AS day,
                    (SELECT max(taken_at_ms)
                     FROM heapsnap_rows
                     WHERE kind = 'process' AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000) AS newest
                FROM heapsnap_rows
                WHERE kind = 'account' AND name = 'tracker' AND bytes > 0
                  AND taken_at_ms > newest - 604800000 AND taken_at_ms <= newest
            )
            GROUP BY host, target, boot, pid, started
            HAVING count() >= 5 AND max(day) > min(day)
        ) AS processes
        USING host, target, boot, pid, started
    )
    GROUP BY id
    ORDER BY bytes_per_day DESC, id
    LIMIT 50
) AS growth
ANY LEFT JOIN (SELECT id, frames FROM heapsnap_stacks) AS known USING id
ORDER BY bytes_per_day DESC, id
