-- Tables for the rows of `heapsnap export --format ndjson --rows sums` in ClickHouse, from 18.16 on.
-- docs/fleet.md describes each column. A kind of row that a later heapsnap writes needs no change here.
CREATE TABLE IF NOT EXISTS heapsnap_rows
(
    kind String,
    host String,
    target String,
    boot_id Nullable(String),
    pid Int32,
    start_time Nullable(UInt64),
    comm String,
    exe String,
    build_id Nullable(String),
    taken_at_ms Int64,
    name String,
    id String,
    size UInt64,
    blocks UInt64,
    bytes UInt64,
    free_blocks UInt64,
    free_bytes UInt64,
    swapped UInt64,
    allocations UInt64,
    frees UInt64,
    allocated_bytes UInt64,
    freed_bytes UInt64,
    snapshot String
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(intDiv(taken_at_ms, 1000)), 'UTC')
ORDER BY (kind, target, host, pid, name, id, taken_at_ms);

-- The frames of each stack, once for the whole fleet; id as in heapsnap_rows.
CREATE TABLE IF NOT EXISTS heapsnap_stacks
(
    id String,
    name String,
    frames Array(String)
)
ENGINE = ReplacingMergeTree
ORDER BY id;
