#!/usr/bin/env python3
"""Reads a snapshot by docs/snapshot-format.md and nothing else; prints it a line an item.

Needs the standard library and the zstd command. Slow, and meant to be: it is the proof that the
page is enough to write a reader.
"""

import struct
import subprocess
import sys

MASK = (1 << 64) - 1
STATES = ["used", "tcache", "fastbin", "unsorted", "smallbin", "largebin", "top", "fence",
          "mmapped", "unknown"]
(CHUNKS, PAGES, CONTENTS, TABLE, MMAPPED, INDEX, CALL_STACKS, REFERENCES, ROOTS, TYPE_NAMES,
 BLOCK_TYPES, SLOTS) = range(1, 13)
MAX_COLUMN = 16 << 20


class Damaged(Exception):
    pass


def check(holds, why):
    if not holds:
        raise Damaged(why)


def xxh64(data):
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotl(x, r):
        return ((x << r) | (x >> (64 - r))) & MASK

    def mix(acc, lane):
        return rotl((acc + lane * p2) & MASK, 31) * p1 & MASK

    at, length = 0, len(data)
    if length >= 32:
        v = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        stripes = length // 32
        for lanes in struct.iter_unpack("<4Q", data[:stripes * 32]):
            v = [mix(acc, lane) for acc, lane in zip(v, lanes)]
        at = stripes * 32
        h = (rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18)) & MASK
        for acc in v:
            h = ((h ^ mix(0, acc)) * p1 + p4) & MASK
    else:
        h = p5
    h = (h + length) & MASK
    while at + 8 <= length:
        h = (rotl(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & MASK
        at += 8
    if at + 4 <= length:
        h = (rotl(h ^ (struct.unpack_from("<I", data, at)[0] * p1 & MASK), 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ (byte * p5 & MASK), 11) * p1 & MASK
    h = (h ^ (h >> 33)) * p2 & MASK
    h = (h ^ (h >> 29)) * p3 & MASK
    return h ^ (h >> 32)


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        check(count <= len(self.data) - self.at, "a length runs past the end")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                check(value <= MASK, "a varint is too large")
                return value
        raise Damaged("a varint is too long")

    def signed(self):
        z = self.varint()
        return -(z >> 1) - 1 if z & 1 else z >> 1

    def text(self):
        length = self.varint()
        check(length <= 1 << 20, "a text is too long")
        return bytes(self.take(length))

    def at_end(self):
        return self.at == len(self.data)


def decompress(data):
    done = subprocess.run(["zstd", "-d", "-c", "-q"], input=data, capture_output=True, check=False)
    check(done.returncode == 0, "a column does not decompress")
    return done.stdout


class Section:
    def __init__(self, data):
        check(len(data) >= 24, "a section is too short")
        magic, self.kind, count, self.length, self.items = struct.unpack_from("<IHHII", data)
        check(magic == 0x43455348, "no section begins here")
        head = 16 + 12 * count
        check(count <= 64 and head + 8 <= self.length <= len(data), "a section has a bad length")
        data = data[:self.length]
        check(struct.unpack("<Q", data[-8:])[0] == xxh64(data[:-8]), "a checksum does not match")
        self.stored, at = {}, head
        for i in range(count):
            column, encoding, _, raw, stored = struct.unpack_from("<HBBII", data, 16 + 12 * i)
            check(at + stored <= self.length - 8, "a column is too long")
            self.stored[column] = (encoding, raw, data[at:at + stored])
            at += stored
        check(at == self.length - 8, "the columns do not fill the section")

    def column(self, column):
        if column not in self.stored:
            return b""
        encoding, raw, stored = self.stored[column]
        check(raw <= MAX_COLUMN and encoding in (0, 1), "a column cannot be read")
        data = stored if encoding == 0 else decompress(stored)
        check(len(data) == raw, "a column has another length than it says")
        return data


def read_table(section):
    """Name and rows (dicts) of a table."""
    cursor = Cursor(section.column(1))
    name = cursor.text().decode()
    rows, columns = cursor.varint(), cursor.varint()
    check(columns <= 256, "a table has too many columns")
    heads = [(cursor.text().decode(), cursor.varint(), cursor.varint()) for _ in range(columns)]
    check(rows == 0 or columns > 0, "rows without columns")
    values = [{} for _ in range(rows)] if all(rows <= head[2] for head in heads) else None
    check(values is not None, "a column is shorter than its rows")
    for column, kind, length in heads:
        data, last = Cursor(cursor.take(length)), 0
        for row in values:
            if kind == 1:
                row[column] = data.varint()
            elif kind == 2:
                row[column] = data.signed()
            elif kind == 3:
                last = (last + data.signed()) & MASK
                row[column] = last
            elif kind == 4:
                row[column] = data.text()
    return name, values


def read_chunks(section):
    """(address, size, state, arena, segment) of each chunk."""
    runs, large = Cursor(section.column(1)), Cursor(section.column(3))
    codes, bits, others = section.column(2), section.column(4), section.column(5)
    check(len(codes) == section.items and len(bits) == (len(codes) + 7) // 8, "columns differ")
    arena, segment, shift = runs.signed(), runs.varint(), runs.varint()
    address, chunk, other = 0, 0, 0
    while not runs.at_end():
        address = address + runs.varint()
        count = runs.varint()
        check(count >= 1 and chunk + count <= len(codes), "runs do not fit")
        for chunk in range(chunk, chunk + count):
            size = large.varint() if codes[chunk] == 255 else codes[chunk] << shift
            state = 0
            if bits[chunk // 8] >> chunk % 8 & 1:
                check(other // 2 < len(others), "other states are missing")
                state = others[other // 2] >> 4 * (other % 2) & 15
                other += 1
            yield address, size, STATES[min(state, 9)], arena, segment
            address += size
            check(address <= MASK, "a chunk ends past all addresses")
        chunk += 1
    check(chunk == len(codes) and large.at_end(), "columns differ")


def read_stacks(section):
    """(stack id, slack) of each chunk of a tracked process; (None, None) of another's."""
    planes, slacks = section.column(6), section.column(7)
    count = section.items
    check(len(planes) in (0, 4 * count) and len(slacks) in (0, count), "columns differ")
    for chunk in range(count):
        stack = sum(planes[plane * count + chunk] << 8 * plane for plane in range(4)) if planes else None
        yield stack, slacks[chunk] if slacks else None


def read_pages(section):
    """(begin, end, state) of each run."""
    cursor = Cursor(section.column(1))
    page_size, at = cursor.varint(), cursor.varint()
    for _ in range(section.items):
        run = cursor.varint()
        end = at + (run >> 4) * page_size
        if run & 15 != 15:
            yield at, end, run & 15
        at = end
    check(cursor.at_end(), "bytes follow the last run")


def read_contents(section):
    """(address, bytes) of each range."""
    ranges, data, at = Cursor(section.column(1)), Cursor(section.column(2)), 0
    for _ in range(section.items):
        at += ranges.varint()
        part = data.take(ranges.varint())
        yield at, part
        at += len(part)
    check(ranges.at_end() and data.at_end(), "bytes follow the last range")


def planes(data, count):
    check(len(data) == 4 * count, "columns differ")
    return [sum(data[plane * count + i] << 8 * plane for plane in range(4)) for i in range(count)]


def read_slots(section):
    """(address, bytes) of each used slot."""
    pages, bits = Cursor(section.column(1)), Cursor(section.column(2))
    at, used = 0, 0
    while not pages.at_end():
        at += pages.varint()
        size, slots = pages.varint(), pages.varint()
        of_page = bits.take((slots + 7) // 8)
        for slot in range(slots):
            if of_page[slot // 8] >> slot % 8 & 1:
                used += 1
                yield at + slot * size, size
        at += slots * size
    check(bits.at_end() and used == section.items, "columns differ")


class References:
    """(block, offset, target, interior) of each reference, section by section."""

    def __init__(self):
        self.next, self.offset, self.target = 0, 0, 0

    def read(self, section):
        cursor = Cursor(section.column(1))
        block = cursor.varint()
        goes_on = self.next > 0 and block == self.next - 1
        check(cursor.at_end() and (goes_on or block == self.next), "blocks do not follow")
        counts, large_counts = section.column(2), Cursor(section.column(3))
        offsets, large_offsets = section.column(4), Cursor(section.column(5))
        targets, interior = planes(section.column(6), len(offsets)), section.column(7)
        check(len(counts) == section.items and len(interior) == (len(offsets) + 7) // 8, "columns differ")
        at = 0
        for code in counts:
            if not goes_on:
                self.offset, self.target = 0, block
            goes_on = False
            for at in range(at, at + (large_counts.varint() if code == 255 else code)):
                check(at < len(offsets), "offsets are missing")
                self.offset += large_offsets.varint() if offsets[at] == 255 else offsets[at]
                step = targets[at]
                self.target = (self.target + ((step >> 1) ^ -(step & 1))) & 0xffffffff
                yield block, self.offset, self.target, interior[at // 8] >> at % 8 & 1
            at += 1 if code else 0
            block += 1
        check(at == len(offsets) and large_counts.at_end() and large_offsets.at_end(), "columns differ")
        self.next = block


class Snapshot:
    def __init__(self, data):
        check(data[:8] == b"HEAPSNAP", "no snapshot")
        check(len(data) >= 56, "cut off")
        check(struct.unpack_from("<H", data, 8)[0] == 1, "another major version")
        footer = data[-40:]
        index, length, size, checksum = struct.unpack_from("<4Q", footer)
        check(footer[32:] == b"HSNAPEND" and checksum == xxh64(footer[:24]) and size == len(data)
              and index + length == size - 40, "cut off or damaged")
        self.data, self.index, self.tables = data, [], {}
        while index < size - 40:
            section = Section(data[index:size - 40])
            index += section.length
            if section.kind == INDEX:
                self.index += read_table(section)[1]
        for section in self.sections(TABLE, MMAPPED, CALL_STACKS, ROOTS, TYPE_NAMES):
            name, rows = read_table(section)
            self.tables.setdefault(name, []).extend(rows)

    def sections(self, *kinds):
        for entry in self.index:
            if entry["kind"] in kinds:
                section = Section(self.data[entry["offset"]:entry["offset"] + entry["length"]])
                check(section.kind == entry["kind"] and section.items == entry["items"],
                      "the index is wrong")
                yield section

    def chunks(self):
        order = sorted((entry for entry in self.index if entry["kind"] == CHUNKS),
                       key=lambda entry: entry["begin"])
        for entry in order:
            section = Section(self.data[entry["offset"]:entry["offset"] + entry["length"]])
            yield from zip(read_chunks(section), read_stacks(section))

    def pages(self):
        last = None
        for section in self.sections(PAGES):
            for begin, end, state in read_pages(section):
                if last and last[1] == begin and last[2] == state:
                    last = (last[0], end, state)
                    continue
                if last:
                    yield last
                last = (begin, end, state)
        if last:
            yield last

    def slots(self):
        for section in self.sections(SLOTS):
            yield from read_slots(section)

    def references(self):
        references = References()
        for section in self.sections(REFERENCES):
            yield from references.read(section)

    def block_types(self):
        block = 0
        for section in self.sections(BLOCK_TYPES):
            check(Cursor(section.column(1)).varint() == block, "blocks do not follow")
            for number in planes(section.column(2), section.items):
                yield block, number
                block += 1

    def contents(self):
        for section in self.sections(CONTENTS):
            yield from read_contents(section)


def lines(snapshot):
    for (address, size, state, arena, segment), (stack, slack) in snapshot.chunks():
        yield f"chunk {address:x} {size} {state} {arena} {segment}"
        if stack is not None:
            yield f"stack {address:x} {stack} {slack}"
    for begin, end, state in snapshot.pages():
        yield f"pages {begin:x} {end:x} {state}"
    for address, data in snapshot.contents():
        for i in range(0, len(data), 16):
            yield f"bytes {address + i:x} {data[i:i + 16].hex()}"
    for address, size in snapshot.slots():
        yield f"slot {address:x} {size}"
    for block, offset, target, interior in snapshot.references():
        yield f"reference {block} {offset} {target} {interior}"
    for block, number in snapshot.block_types():
        yield f"type {block} {number}"
    for name, rows in snapshot.tables.items():
        for row in rows:
            values = (value.hex() if isinstance(value, bytes) else str(value)
                      for value in row.values())
            yield f"{name} " + " ".join(f"{key}={value}" for key, value in zip(row, values))


def main():
    with open(sys.argv[1], "rb") as file:
        for line in lines(Snapshot(file.read())):
            print(line)


if __name__ == "__main__":
    main()
