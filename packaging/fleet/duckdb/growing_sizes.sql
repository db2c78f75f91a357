-- Which sizes of blocks grow fastest over the fleet, in the last seven days of the table?
--
-- Each process has a line fitted (least squares) to the bytes of each size over time, 0 where a snapshot has none of
-- it; a size's growth is the sum of the slopes. `processes`: how many have it, `growing`: in how many it grows,
-- `hosts`: on how many hosts. What lies more than a day ahead of now does not count: a clock was ahead.
WITH newest AS
(
    SELECT max(taken_at_ms) AS ms
    FROM heapsnap_rows
    WHERE kind = 'process' AND taken_at_ms <= epoch(now()) * 1000 + 86400000
),
days AS
(
    SELECT
        *,
        coalesce(boot_id, '') AS boot,
        coalesce(start_time, 0) AS started,
        (taken_at_ms - newest.ms) / 86400000 AS day
    FROM heapsnap_rows, newest
    WHERE taken_at_ms > newest.ms - 604800000 AND taken_at_ms <= newest.ms
),
processes AS
(
    SELECT
        host, target, boot, pid, started,
        count(*) AS n,
        sum(day) AS sum_x,
        sum(day * day) AS sum_xx,
        max(day) AS last_day
    FROM days
    WHERE kind = 'process'
    GROUP BY host, target, boot, pid, started
    HAVING count(*) >= 5 AND max(day) > min(day)
),
figures AS
(
    SELECT
        host, target, boot, pid, started, name,
        sum(bytes) AS sum_y,
        sum(day * bytes) AS sum_xy,
        max(day) AS newest_day,
        arg_max(bytes, day) AS newest_bytes
    FROM days
    WHERE kind = 'size'
    GROUP BY host, target, boot, pid, started, name
),
slopes AS
(
    SELECT
        host, name,
        (sum_xy - sum_x * sum_y / n) / (sum_xx - sum_x * sum_x / n) AS per_day,
        CASE WHEN newest_day = last_day THEN newest_bytes ELSE 0 END AS last_bytes
    FROM figures JOIN processes USING (host, target, boot, pid, started)
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
