-- What does a release change? Each target's newest build against the one before it.
--
-- A build is as old as its first snapshot. Figures are means over all snapshots of a build, of the account of
-- resident memory, of sizes and of stacks. Let the new build run for as long as the old one did before you
-- conclude: a program that has just started is small.
WITH builds AS
(
    SELECT
        target,
        build_id,
        count(*) AS snapshots,
        row_number() OVER (PARTITION BY target ORDER BY min(taken_at_ms) DESC) AS age
    FROM heapsnap_rows
    WHERE kind = 'process' AND build_id IS NOT NULL
    GROUP BY target, build_id
),
pairs AS
(
    SELECT
        target,
        new.build_id AS new_build,
        old.build_id AS old_build,
        new.snapshots AS new_snapshots,
        old.snapshots AS old_snapshots
    FROM builds AS new JOIN builds AS old USING (target)
    WHERE new.age = 1 AND old.age = 2
)
SELECT
    target,
    kind,
    name,
    id,
    any_value(old_build) AS before_build,
    any_value(new_build) AS after_build,
    coalesce(sum(bytes / old_snapshots) FILTER (build_id = old_build), 0) AS before_bytes,
    coalesce(sum(bytes / new_snapshots) FILTER (build_id = new_build), 0) AS after_bytes,
    after_bytes - before_bytes AS difference
FROM heapsnap_rows JOIN pairs USING (target)
WHERE kind IN ('account', 'size', 'stack') AND build_id IS NOT NULL
GROUP BY target, kind, name, id
ORDER BY difference DESC, target, kind, name, id
LIMIT 50
