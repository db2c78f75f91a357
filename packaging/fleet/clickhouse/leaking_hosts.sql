-- Which processes on which hosts leak, in the last seven days of the table?
--
-- The slope of resident memory is the median of the slopes between all pairs of hours (Theil and Sen), which a
-- few outliers do not move. `rising` is the share of pairs that rise: near 1 for a steady leak, near 0.5 for
-- noise. Listed are processes with five hours at least and 80 % of the pairs rising. What lies more than a day
-- ahead of now does not count: a clock was ahead.
SELECT
    host, target, pid, build_id, points, bytes_per_day, rising, bytes_now
FROM
(
    SELECT
        host, target, boot_id, pid, start_time,
        any(build) AS build_id,
        any(length(hours)) AS points,
        (quantileExact(0.5)(slope) - quantileExact(0.5)(-slope)) / 2 * 24 AS bytes_per_day,
        avg(slope > 0) AS rising,
        any(newest) AS bytes_now
    FROM
    (
        SELECT
            host, target, boot_id, pid, start_time, build, hours, newest,
            arrayJoin(arrayMap((h, l) -> (l - levels[i]) / (h - hours[i]),
                               arraySlice(hours, i + 1), arraySlice(levels, i + 1))) AS slope
        FROM
        (
            SELECT
                host, target, boot_id, pid, start_time,
                any(build) AS build,
                groupArray(hour) AS hours,
                groupArray(level) AS levels,
                argMax(level, hour) AS newest
            FROM
            (
                SELECT
                    host, target, boot_id, pid, start_time,
                    any(build_id) AS build,
                    intDiv(taken_at_ms, 3600000) AS hour,
                    avg(bytes) AS level
                FROM heapsnap_rows
                WHERE kind = 'process'
                  AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000
                  AND taken_at_ms >
                      (SELECT max(taken_at_ms) - 604800000
                       FROM heapsnap_rows
                       WHERE kind = 'process' AND taken_at_ms <= (toUnixTimestamp(now()) + 86400) * 1000)
                GROUP BY host, target, boot_id, pid, start_time, hour
            )
            GROUP BY host, target, boot_id, pid, start_time
            HAVING count() >= 5
        )
        ARRAY JOIN arrayEnumerate(hours) AS i
    )
    GROUP BY host, target, boot_id, pid, start_time
)
WHERE rising >= 0.8
ORDER BY bytes_per_day DESC, host, target, pid
LIMIT 50
