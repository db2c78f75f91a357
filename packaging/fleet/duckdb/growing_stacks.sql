-- Which call stacks hold ever more memory over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for the live bytes of each stack, of snapshots of tracked processes: those where the account
-- has memory of the tracker. `name` is the function that is charged, `frames` are the callers, innermost first.
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
    WHERE kind = 'account' AND name = 'tracker' AND bytes > 0
    GROUP BY host, target, boot, pid, started
    HAVING count(*) >= 5 AND max(day) > min(day)
),
figures AS
(
    SELECT
        host, target, boot, pid, started, id,
        any_value(name) AS name,
        sum(bytes) AS sum_y,
        sum(day * bytes) AS sum_xy,
        max(day) AS newest_day,
        arg_max(bytes, day) AS newest_bytes
    FROM days
    WHERE kind = 'stack'
    GROUP BY host, target, boot, pid, started, id
),
slopes AS
(
    SELECT
        host, id, name,
        (sum_xy - sum_x * sum_y / n) / (sum_xx - sum_x * sum_x / n) AS per_day,
        CASE WHEN newest_day = last_day THEN newest_bytes ELSE 0 END AS last_bytes
    FROM figures JOIN processes USING (host, target, boot, pid, started)
),
stacks AS
(
    SELECT
        id,
        any_value(name) AS name,
        sum(per_day) AS bytes_per_day,
        count(*) AS processes,
        count(*) FILTER (per_day > 0) AS growing,
        count(DISTINCT host) AS hosts,
        sum(last_bytes) AS bytes_now
    FROM slopes
    GROUP BY id
    ORDER BY bytes_per_day DESC, id
    LIMIT 50
)
SELECT stacks.*, heapsnap_stacks.frames
FROM stacks LEFT JOIN heapsnap_stacks USING (id)
ORDER BY bytes_per_day DESC, id
