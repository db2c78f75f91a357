#!/usr/bin/env python3
"""Prints postgres_layouts.inc from the headers of PostgreSQL servers:

    postgres_layouts.py 13=DIR 15=DIR 17=DIR > postgres_layouts.inc

DIR: where postgres.h of that version is (postgresql-server-dev-15: /usr/include/postgresql/15/server). Needs gcc.
What headers do not show, the structures of aset.c, generation.c, slab.c and bump.c, is declared below, as these
files have it. No Debian suite has 14 and 16: the headers of 13 and 17 serve for them. They differ in the numbers of
the node tags, known from running servers, and in the bits of a MemoryChunk's method, three in 16. The numbers hold
for 64-bit machines and without --enable-cassert, which adds members."""

import os
import subprocess
import sys
import tempfile

# Where a version's headers come from, and its tags where these are not its own.
HEADERS = {13: 13, 14: 13, 15: 15, 16: 17, 17: 17}
TAGS = {14: (222, 224, 223), 16: (450, 451, 452)}  # AllocSetContext, GenerationContext, SlabContext

# aset.c
SETS = {
    (13, 16): """
        struct Set { MemoryContextData header; void *blocks; void *freelist[11]; Size initBlockSize, maxBlockSize,
            nextBlockSize, allocChunkLimit; void *keeper; int freeListIndex; };""",
    (17, 17): """
        struct Set { MemoryContextData header; void *blocks; void *freelist[11]; uint32 initBlockSize, maxBlockSize,
            nextBlockSize, allocChunkLimit; int freeListIndex; };""",
}
SET_BLOCK = "struct SetBlock { void *aset, *prev, *next; char *freeptr, *endptr; };"

# generation.c
GENERATIONS = {
    (13, 14): """
        struct Generation { MemoryContextData header; Size blockSize; void *block; dlist_head blocks; };
        struct GenerationBlock { dlist_node node; Size blksize; int nchunks, nfree; char *freeptr, *endptr; };""",
    (15, 15): """
        struct Generation { MemoryContextData header; Size initBlockSize, maxBlockSize, nextBlockSize,
            allocChunkLimit; void *block, *freeblock, *keeper; dlist_head blocks; };
        struct GenerationBlock { dlist_node node; Size blksize; int nchunks, nfree; char *freeptr, *endptr; };""",
    (16, 16): """
        struct Generation { MemoryContextData header; Size initBlockSize, maxBlockSize, nextBlockSize,
            allocChunkLimit; void *block, *freeblock, *keeper; dlist_head blocks; };
        struct GenerationBlock { dlist_node node; void *context; Size blksize; int nchunks, nfree;
            char *freeptr, *endptr; };""",
    (17, 17): """
        struct Generation { MemoryContextData header; uint32 initBlockSize, maxBlockSize, nextBlockSize,
            allocChunkLimit; void *block, *freeblock; dlist_head blocks; };
        struct GenerationBlock { dlist_node node; void *context; Size blksize; int nchunks, nfree;
            char *freeptr, *endptr; };""",
}

# slab.c
SLABS = {
    (13, 15): """
        struct Slab { MemoryContextData header; Size chunkSize, fullChunkSize, blockSize, headerSize;
            int chunksPerBlock, minFreeChunks, nblocks; dlist_head lists[0]; };
        struct SlabBlock { dlist_node node; int nfree, firstFreeChunk; };""",
    (16, 16): """
        struct Slab { MemoryContextData header; Size chunkSize, fullChunkSize, blockSize; int32 chunksPerBlock,
            curBlocklistIndex, blocklist_shift; dclist_head emptyblocks; dlist_head lists[3]; };
        struct SlabBlock { void *slab; int32 nfree, nunused; void *freehead, *unused; dlist_node node; };""",
    (17, 17): """
        struct Slab { MemoryContextData header; uint32 chunkSize, fullChunkSize, blockSize; int32 chunksPerBlock,
            curBlocklistIndex, blocklist_shift; dclist_head emptyblocks; dlist_head lists[3]; };
        struct SlabBlock { void *slab; int32 nfree, nunused; void *freehead, *unused; dlist_node node; };""",
}

# bump.c
BUMP = """
        struct Bump { MemoryContextData header; uint32 initBlockSize, maxBlockSize, nextBlockSize, allocChunkLimit;
            dlist_head blocks; };
        struct BumpBlock { dlist_node node; char *freeptr, *endptr; };"""

# AllocChunkData, GenerationChunk: {size, aset}, {size, block, context}. MemoryChunk since 16.
CHUNKS = {(13, 15): (16, 24), (16, 17): ("sizeof(MemoryChunk)", "sizeof(MemoryChunk)")}


def of(table, version):
    found, = (value for (first, last), value in table.items() if first <= version <= last)
    return found


def members(version):
    """Member of PostgresLayout: expression of C."""
    set_chunk, generation_chunk = of(CHUNKS, version)
    tags = TAGS.get(version, ("T_AllocSetContext", "T_GenerationContext", "T_SlabContext"))
    found = {
        "set_tag": tags[0],
        "generation_tag": tags[1],
        "slab_tag": tags[2],
        "bump_tag": "T_BumpContext" if version >= 17 else 0,
        "methods_size": "sizeof(MemoryContextMethods)",
        "context_size": "sizeof(MemoryContextData)",
        "context_allocated": "offsetof(MemoryContextData, mem_allocated)",
        "context_methods": "offsetof(MemoryContextData, methods)",
        "context_parent": "offsetof(MemoryContextData, parent)",
        "context_first_child": "offsetof(MemoryContextData, firstchild)",
        "context_previous": "offsetof(MemoryContextData, prevchild)",
        "context_next": "offsetof(MemoryContextData, nextchild)",
        "context_name": "offsetof(MemoryContextData, name)",
        "context_ident": "offsetof(MemoryContextData, ident)",
        "set_size": "MAXALIGN(sizeof(struct Set))",
        "set_blocks": "offsetof(struct Set, blocks)",
        "set_free_lists": "offsetof(struct Set, freelist)",
        "set_block_header": "MAXALIGN(sizeof(struct SetBlock))",
        "set_block_context": "offsetof(struct SetBlock, aset)",
        "set_block_previous": "offsetof(struct SetBlock, prev)",
        "set_block_next": "offsetof(struct SetBlock, next)",
        "set_block_free": "offsetof(struct SetBlock, freeptr)",
        "set_block_end": "offsetof(struct SetBlock, endptr)",
        "set_chunk_header": set_chunk,
        "method_bits": {16: 3, 17: "MEMORY_CONTEXT_METHODID_BITS"}.get(version, 0),
        "generation_size": "MAXALIGN(sizeof(struct Generation))",
        "generation_blocks": "offsetof(struct Generation, blocks)",
        "generation_block_header": "MAXALIGN(sizeof(struct GenerationBlock))",
        "generation_block_node": "offsetof(struct GenerationBlock, node)",
        "generation_block_size": "offsetof(struct GenerationBlock, blksize)",
        "generation_block_chunks": "offsetof(struct GenerationBlock, nchunks)",
        "generation_block_free_chunks": "offsetof(struct GenerationBlock, nfree)",
        "generation_block_free": "offsetof(struct GenerationBlock, freeptr)",
        "generation_block_end": "offsetof(struct GenerationBlock, endptr)",
        "generation_chunk_header": generation_chunk,
        "slab_size": "sizeof(struct Slab)",
        "slab_size_bytes": "sizeof(((struct Slab *) 0)->blockSize)",
        "slab_chunk_size": "offsetof(struct Slab, fullChunkSize)",
        "slab_block_size": "offsetof(struct Slab, blockSize)",
        "slab_chunks_per_block": "offsetof(struct Slab, chunksPerBlock)",
        "slab_lists": "offsetof(struct Slab, lists)",
        "slab_empty_blocks": "offsetof(struct Slab, emptyblocks)" if version >= 16 else 0,
        "slab_block_header": "MAXALIGN(sizeof(struct SlabBlock))",
        "slab_block_node": "offsetof(struct SlabBlock, node)",
        "slab_block_free_chunks": "offsetof(struct SlabBlock, nfree)",
    }
    if version >= 17:
        found |= {
            "bump_size": "MAXALIGN(sizeof(struct Bump))",
            "bump_blocks": "offsetof(struct Bump, blocks)",
            "bump_block_header": "MAXALIGN(sizeof(struct BumpBlock))",
            "bump_block_node": "offsetof(struct BumpBlock, node)",
            "bump_block_free": "offsetof(struct BumpBlock, freeptr)",
            "bump_block_end": "offsetof(struct BumpBlock, endptr)",
        }
    return found


def layout(version, headers):
    found = members(version)
    source = ["#include \"postgres.h\"", "#include \"lib/ilist.h\"", "#include \"nodes/memnodes.h\""]
    if version >= 16:
        source.append("#include \"utils/memutils_memorychunk.h\"")
    source += [of(SETS, version), SET_BLOCK, of(GENERATIONS, version), of(SLABS, version)]
    if version >= 17:
        source.append(BUMP)
    source += ["#undef printf", "extern int printf(const char *, ...);", "int main(void) {"]
    source += [f"printf(\"    .{name} = %lu,\\n\", (unsigned long) ({value}));" for name, value in found.items()]
    source.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/layout.c", "w", encoding="utf-8") as file:
            file.write("\n".join(source))
        subprocess.run(["gcc", "-I", headers, "-o", f"{folder}/layout", f"{folder}/layout.c"], check=True)
        done = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True)
    return f"{{\n    .major = {version},\n{done.stdout}}},"


def main():
    folders = {}
    for argument in sys.argv[1:]:
        version, _, folder = argument.partition("=")
        if not os.path.exists(f"{folder}/postgres.h"):
            sys.exit(f"{argument}: not VERSION=DIR with postgres.h in it")
        folders[int(version)] = folder
    missing = sorted(set(HEADERS.values()) - set(folders))
    if missing:
        sys.exit(f"headers of version {missing[0]} are needed, too: see {sys.argv[0]}")
    print("// Made by postgres_layouts.py: do not edit.")
    for version, headers in HEADERS.items():
        print(layout(version, folders[headers]))


if __name__ == "__main__":
    main()
