-- Which call stacks hold ever more memory over the fleet, in the last seven days of the table?
--
-- As growing_sizes.sql, for the live bytes of each stack. `name` is the function that is charged, `frames` are
-- the callers, innermost first.
WITH newest AS (SELECT max(taken_at_ms) AS ms FROM heapsnap_rows WHERE kind = 'process'),
slopes AS
(
    SELECT
        host,
        id,
        any_value(name) AS name,
        regr_slope(bytes, (taken_at_ms - newest.ms) / 86400000) AS per_day,
        arg_max(bytes, taken_at_ms) AS last_bytes
    FROM heapsnap_rows, newest
    WHERE kind = 'stack' AND taken_at_ms > newest.ms - 604800000
    GROUP BY host, target, boot_id, pid, start_time, id
    HAVING count(*) >= 5
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
