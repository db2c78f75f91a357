-- Tables for the rows of `heapsnap export --format ndjson --rows sums` in DuckDB.
-- docs/fleet.md describes each column. A kind of row that a later heapsnap writes needs no change here.
CREATE TABLE IF NOT EXISTS heapsnap_rows
(
    kind VARCHAR,
    host VARCHAR,
    target VARCHAR,
    boot_id VARCHAR,
    pid INTEGER,
    start_time UBIGINT,
    comm VARCHAR,
    exe VARCHAR,
    build_id VARCHAR,
    taken_at_ms BIGINT,
    name VARCHAR,
    id VARCHAR,
    size UBIGINT,
    blocks UBIGINT,
    bytes UBIGINT,
    free_blocks UBIGINT,
    free_bytes UBIGINT,
    swapped UBIGINT,
    allocations UBIGINT,
    frees UBIGINT,
    allocated_bytes UBIGINT,
    freed_bytes UBIGINT,
    snapshot VARCHAR
);

-- The frames of each stack, once for the whole fleet; id as in heapsnap_rows.
CREATE TABLE IF NOT EXISTS heapsnap_stacks
(
    id VARCHAR PRIMARY KEY,
    name VARCHAR,
    frames VARCHAR[]
);
