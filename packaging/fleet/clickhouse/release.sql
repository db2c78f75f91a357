-- What does a release change? Each target's newest build against the one before it.
--
-- A build is as old as its first snapshot. Figures are means over all snapshots of a build, of the account of
-- resident memory, of sizes and of stacks. Let the new build run for as long as the old one did before you
-- conclude: a program that has just started is small.
SELECT
    target,
    kind,
    name,
    id,
    any(old_build) AS before_build,
    any(new_build) AS after_build,
    sum(if(build = old_build, total / old_snapshots, 0)) AS before_bytes,
    sum(if(build = new_build, total / new_snapshots, 0)) AS after_bytes,
    after_bytes - before_bytes AS difference
FROM
(
    SELECT target, kind, name, id, assumeNotNull(build_id) AS build, sum(bytes) AS total
    FROM heapsnap_rows
    WHERE kind IN ('account', 'size', 'stack') AND build_id IS NOT NULL
    GROUP BY target, kind, name, id, build
) AS sums
ALL INNER JOIN
(
    SELECT
        target,
        arrayReverseSort((build, first) -> first, groupArray(build), groupArray(first)) AS builds,
        arrayReverseSort((count, first) -> first, groupArray(snapshots), groupArray(first)) AS counts,
        builds[1] AS new_build,
        builds[2] AS old_build,
        counts[1] AS new_snapshots,
        counts[2] AS old_snapshots
    FROM
    (
        SELECT target, assumeNotNull(build_id) AS build, min(taken_at_ms) AS first, count() AS snapshots
        FROM heapsnap_rows
        WHERE kind = 'process' AND build_id IS NOT NULL
        GROUP BY target, build
    )
    GROUP BY target
    HAVING length(builds) >= 2
) AS releases USING target
GROUP BY target, kind, name, id
ORDER BY difference DESC, target, kind, name, id
LIMIT 50
