-- Which processes on which hosts leak, in the last seven days of the table?
--
-- The slope of resident memory is the median of the slopes between all pairs of hours (Theil and Sen), which a
-- few outliers do not move. `rising` is the share of pairs that rise: near 1 for a steady leak, near 0.5 for
-- noise. Listed are processes with five hours at least and 80 % of the pairs rising. What lies more than a day
-- ahead of now does not count: a clock was ahead.
WITH newest AS
(
    SELECT max(taken_at_ms) AS ms
    FROM heapsnap_rows
    WHERE kind = 'process' AND taken_at_ms <= epoch(now()) * 1000 + 86400000
),
points AS
(
    SELECT
        dense_rank() OVER (ORDER BY host, target, boot_id, pid, start_time) AS run,
        host, target, pid,
        any_value(build_id) AS build_id,
        taken_at_ms // 3600000 AS hour,
        avg(bytes) AS level
    FROM heapsnap_rows, newest
    WHERE kind = 'process' AND taken_at_ms > newest.ms - 604800000 AND taken_at_ms <= newest.ms
    GROUP BY host, target, boot_id, pid, start_time, hour
),
runs AS
(
    SELECT
        run, host, target, pid,
        any_value(build_id) AS build_id,
        count(*) AS points,
        arg_max(level, hour) AS bytes_now
    FROM points
    GROUP BY run, host, target, pid
    HAVING count(*) >= 5
),
slopes AS
(
    SELECT run, (b.level - a.level) / (b.hour - a.hour) AS slope
    FROM points AS a JOIN points AS b USING (run)
    WHERE b.hour > a.hour
),
fits AS
(
    SELECT run, median(slope) * 24 AS bytes_per_day, avg(CASE WHEN slope > 0 THEN 1 ELSE 0 END) AS rising
    FROM slopes
    GROUP BY run
)
SELECT host, target, pid, build_id, points, bytes_per_day, rising, bytes_now
FROM runs JOIN fits USING (run)
WHERE rising >= 0.8
ORDER BY bytes_per_day DESC, host, target, pid
LIMIT 50
