"""What the truth target says of its heap, what heapsnap says of it, and where the two disagree."""

import bisect
import json

# More than this in used chunks that the target did not allocate itself is wrong: each of its five
# threads has a tcache and a vector of its TLS blocks, and the loader keeps a little.
EXTRA_CHUNKS = 16
EXTRA_BYTES = 64 * 1024
HEADER_BYTES = 16  # of a chunk, before the pointer
SHOWN = 10  # complaints of one kind
LIVE_STATES = {"U": "used", "M": "mmapped"}


class Truth:
    """The lines that truth_target printed; its header explains them."""

    def __init__(self, lines):
        self.live = {}  # address: (usable size, state)
        self.freed = set()
        self.foreign = []  # (begin, end)
        self.tids = []
        for line in lines:
            words = line.split()
            if words[0] == "L":
                self.live[int(words[1], 16)] = (int(words[2]), LIVE_STATES[words[3]])
            elif words[0] == "F":
                self.freed.add(int(words[1], 16))
            elif words[0] == "R":
                self.foreign.append((int(words[1], 16), int(words[2], 16)))
            elif words[0] == "T":
                self.tids.append(int(words[1]))
            elif words[0] == "ready":
                if (len(self.live), len(self.freed)) != (int(words[1]), int(words[2])):
                    raise ValueError(f"the target counts {words[1:]}, these are {len(self.live)}, {len(self.freed)}")
                return
            else:
                raise ValueError(f"line of the target: {line!r}")
        raise ValueError("the target ended before it was ready")


class Chunk:
    __slots__ = ("pointer", "size", "usable", "state", "arena", "stack")

    def __init__(self, row):
        self.pointer = int(row["addr"], 16)
        self.size = row["size"]
        self.usable = row["usable"]
        self.state = row["state"]
        self.arena = row["arena"]
        self.stack = row.get("stack", 0)  # of a tracked process

    @property
    def begin(self):
        return self.pointer - HEADER_BYTES

    @property
    def key(self):
        return (self.pointer, self.size, self.usable, self.state, self.arena)

    def is_live(self):
        return self.state in ("used", "mmapped")

    def __str__(self):
        return f"{self.pointer:#x} size {self.size} usable {self.usable} {self.state} arena {self.arena}"


class Export:
    """`heapsnap export --format ndjson`. `earlier` is another: a line that both have is parsed once, and is the same
    Chunk in both."""

    def __init__(self, text, earlier=None):
        first, _, body = text.partition("\n")
        self.header = json.loads(first)
        if self.header["kind"] != "snapshot":
            raise ValueError("the first line of the export is not of kind snapshot")
        lines = body.splitlines()
        known = earlier.of_line if earlier is not None else {}
        new = [line for line in lines if line not in known]
        rows = json.loads(f"[{','.join(new)}]")  # a call for each line takes twice as long
        if len(rows) != len(new):
            raise ValueError(f"{len(rows)} values on {len(new)} lines of the export")
        parsed = {line: Chunk(row) if row["kind"] == "chunk" else None for line, row in zip(new, rows)}
        self.of_line = known | parsed if known else parsed  # of earlier ones, too
        self.chunks = [chunk for line in lines if (chunk := self.of_line[line]) is not None]
        self.chunks.sort(key=lambda chunk: chunk.pointer)
        self.pointers = [chunk.pointer for chunk in self.chunks]
        self.by_pointer = dict(zip(self.pointers, self.chunks))

    def at(self, pointer):
        return self.by_pointer.get(pointer)

    def before(self, address):
        """The last chunk whose pointer is at or before the address."""
        index = bisect.bisect_right(self.pointers, address)
        return self.chunks[index - 1] if index else None

    def around(self, address):
        """The neighbourhood, for a message."""
        index = bisect.bisect_left(self.pointers, address)
        near = self.chunks[max(index - 2, 0):index + 2]
        return "; ".join(str(chunk) for chunk in near) or "no chunk at all"


class Complaints:
    """Collects disagreements; of each kind the first few in full and the count of all."""

    def __init__(self):
        self.by_kind = {}

    def add(self, kind, text):
        self.by_kind.setdefault(kind, []).append(text)

    def lines(self):
        for kind, texts in self.by_kind.items():
            yield f"{len(texts)} x {kind}"
            for text in texts[:SHOWN]:
                yield f"    {text}"


def check_live(truth, export, complaints):
    for pointer, (usable, state) in truth.live.items():
        chunk = export.at(pointer)
        if chunk is None:
            complaints.add("live block not found", f"{pointer:#x} usable {usable} {state}; near: {export.around(pointer)}")
        elif chunk.state != state:
            complaints.add(f"live block is {state}, not {chunk.state}", f"{chunk}; near: {export.around(pointer)}")
        elif chunk.usable != usable:
            complaints.add("wrong usable size", f"{chunk}, truth {usable}; near: {export.around(pointer)}")


def check_freed(truth, export, complaints):
    """Nobody allocated after these were freed, so they lie in no live chunk."""
    for pointer in truth.freed:
        chunk = export.before(pointer)
        if chunk and chunk.is_live() and pointer < chunk.pointer + chunk.usable:
            complaints.add("freed block reported as live", f"{pointer:#x} in {chunk}; near: {export.around(pointer)}")


def check_stacks(truth, export):
    """Of a process that was tracked from its first block on: each live block has a stack, and no freed one."""
    complaints = Complaints()
    for pointer in truth.live:
        chunk = export.at(pointer)
        if chunk is not None and chunk.stack == 0:
            complaints.add("live block without a stack", f"{chunk}")
    for chunk in export.chunks:
        if chunk.stack != 0 and not chunk.is_live():
            complaints.add("free chunk with a stack", f"{chunk} stack {chunk.stack}")
    return complaints


def check_extras(truth, export, complaints):
    extras = [chunk for chunk in export.chunks if chunk.is_live() and chunk.pointer not in truth.live]
    if len(extras) > EXTRA_CHUNKS or sum(chunk.size for chunk in extras) > EXTRA_BYTES:
        for chunk in extras:
            complaints.add("live chunk that the target knows nothing of", f"{chunk}; near: {export.around(chunk.pointer)}")


def check_disjoint(truth, export, complaints):
    previous = None
    for chunk in export.chunks:
        if previous and previous.pointer + previous.size > chunk.pointer:
            complaints.add("chunks overlap", f"{previous} and {chunk}")
        previous = chunk
    for begin, end in truth.foreign:
        last = export.before(end + HEADER_BYTES - 1)
        if last and last.state not in ("fence", "unknown") and last.begin + last.size > begin:
            complaints.add("chunk in memory that is not the allocator's", f"{last} in {begin:#x}-{end:#x}")


def compare(truth, export, churning=False):
    """Complaints, empty when heapsnap told the truth. `churning`: other blocks came and went meanwhile."""
    complaints = Complaints()
    check_live(truth, export, complaints)
    check_disjoint(truth, export, complaints)
    if not churning:
        check_freed(truth, export, complaints)
        check_extras(truth, export, complaints)
    return complaints


def check_sums(export, report):
    """The report adds up the same chunks that the export lists."""
    complaints = Complaints()
    sizes_of = {}
    for chunk in export.chunks:
        sizes_of.setdefault(chunk.state, []).append(chunk.size)
    for state, sums in report["states"].items():
        sizes = sizes_of.get(state, [])
        if len(sizes) != sums["count"]:
            complaints.add("report and export differ in count", f"{state}: {sums['count']}, {len(sizes)} are listed")
        # Of a chunk with a mapping of its own the report counts all of the mapping.
        if state != "mmapped" and sum(sizes) != sums["bytes"]:
            complaints.add("report and export differ in bytes", f"{state}: {sums['bytes']}, {sum(sizes)} are listed")
    return complaints


def check_threads(truth, report):
    """Each thread, and no other, has its arena and, where there are tcaches at all, its tcache."""
    complaints = Complaints()
    caches = {cache["tid"]: cache for cache in report["thread_caches"]}
    if sorted(caches) != sorted(truth.tids):
        complaints.add("wrong threads", f"{sorted(caches)}, truth {sorted(truth.tids)}")
    for tid, cache in caches.items():
        if cache["arena"] < 0:
            complaints.add("thread without an arena", f"{tid}")
        if int(cache["tcache"], 16) == 0 and any(int(other["tcache"], 16) for other in caches.values()):
            complaints.add("thread without a tcache, though others have one", f"{tid}")
    return complaints


def compare_exports(left, right, left_name, right_name):
    """Both must hold the same chunks, each the same in all that is said of it."""
    complaints = Complaints()
    common = set(left.chunks).intersection(right.chunks)  # which were the same line
    left_keys = {chunk.key for chunk in left.chunks if chunk not in common}
    right_keys = {chunk.key for chunk in right.chunks if chunk not in common}
    for mine, others, name, export in ((left_keys, right_keys, left_name, right), (right_keys, left_keys, right_name, left)):
        for key in sorted(mine - others):
            complaints.add(f"only in the {name} view", f"{key[0]:#x} {key[1:]}; the other has: {export.around(key[0])}")
    return complaints
