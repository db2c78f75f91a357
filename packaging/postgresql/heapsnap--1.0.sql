\echo Use "CREATE EXTENSION heapsnap" to load this file. \quit

-- Writes a snapshot of the backend that runs it to a new file on the server; gives the path.
CREATE FUNCTION heapsnap_dump(path text) RETURNS text
AS 'MODULE_PATHNAME', 'heapsnap_dump'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

-- A heap holds other people's data.
REVOKE ALL ON FUNCTION heapsnap_dump(text) FROM PUBLIC;
