"""A snapshot taken apart by docs/snapshot-format.md into sections and columns, and put together again with right
lengths, checksums and index, so that what was changed in it gets to the reader's inner parts."""

import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "unit" / "snapshot"))
from read_snapshot import INDEX, Cursor, Damaged, Section, decompress, read_table, xxh64  # noqa: E402

MASK = (1 << 64) - 1
HEADER, FOOTER, SECTION_HEADER, ENTRY = 16, 40, 16, 12
RAW, ZSTD = 0, 1


def varint(value):
    value &= MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def signed(value):
    return varint((value << 1) & MASK if value >= 0 else ((-value << 1) - 1) & MASK)


def text(value):
    return varint(len(value)) + value


def zstd_frame(data, claimed=None, repeated=0):
    """A frame of blocks that are stored, and after them one of `repeated` zeros."""
    frame = bytearray(struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(data) + repeated if claimed is None else claimed))
    most = 1 << 17
    blocks = [(0, data[at:at + most], len(data[at:at + most])) for at in range(0, len(data), most)]
    blocks += [(1, b"\0", min(most, repeated - at)) for at in range(0, repeated, most)]
    for i, (kind, stored, size) in enumerate(blocks or [(0, b"", 0)]):
        last = i + 1 >= len(blocks)
        frame += struct.pack("<I", last | kind << 1 | size << 3)[:3] + stored
    return bytes(frame)


def compressed(data):
    """By zstd itself: entropy coded."""
    return subprocess.run(["zstd", "-q", "-c", f"--stream-size={len(data)}"], input=data, stdout=subprocess.PIPE,
                          check=True).stdout


class Column:
    """Its bytes as they are decoded; what the file says of them can be set apart from what they are."""

    def __init__(self, number, data):
        self.number, self.data = number, data
        self.encoding, self.stored, self.raw_length, self.stored_length = RAW, None, None, None

    def bytes_in_file(self):
        return self.data if self.stored is None else self.stored

    def entry(self):
        stored = len(self.bytes_in_file())
        return struct.pack("<HBBII", self.number & 0xFFFF, self.encoding & 0xFF, 0,
                           (len(self.data) if self.raw_length is None else self.raw_length) & 0xFFFFFFFF,
                           (stored if self.stored_length is None else self.stored_length) & 0xFFFFFFFF)


class EditedSection:
    def __init__(self, kind, items, begin, columns):
        self.kind, self.items, self.begin, self.columns = kind, items, begin, columns
        self.count, self.length = None, None  # what the header says, when it is not the truth
        self.row = {}  # what the index says, where it is not the truth

    def bytes(self):
        entries = b"".join(column.entry() for column in self.columns)
        stored = b"".join(column.bytes_in_file() for column in self.columns)
        length = SECTION_HEADER + len(entries) + len(stored) + 8
        count = len(self.columns) if self.count is None else self.count
        head = struct.pack("<IHHII", 0x43455348, self.kind & 0xFFFF, count & 0xFFFF,
                           (length if self.length is None else self.length) & 0xFFFFFFFF, self.items & 0xFFFFFFFF)
        body = head + entries + stored
        return body + struct.pack("<Q", xxh64(body))

    def copy(self):
        columns = []
        for old in self.columns:
            column = Column(old.number, old.data)
            column.__dict__.update(old.__dict__)
            columns.append(column)
        copied = EditedSection(self.kind, self.items, self.begin, columns)
        copied.count, copied.length, copied.row = self.count, self.length, dict(self.row)
        return copied


class EditedTable:
    """What is in a section that holds a table: name and columns of values as they are stored."""

    def __init__(self, data):
        cursor = Cursor(data)
        self.name, self.rows, count = cursor.text(), cursor.varint(), cursor.varint()
        heads = [[cursor.text(), cursor.varint(), cursor.varint()] for _ in range(count)]
        self.columns = []  # name, type, values
        for name, kind, length in heads:
            part, values = Cursor(cursor.take(length)), []
            while not part.at_end():
                values.append(text(part.text()) if kind == 4 else varint(part.varint()))
            self.columns.append([name, kind, values])

    def bytes(self):
        data = text(self.name) + varint(self.rows) + varint(len(self.columns))
        parts = [b"".join(values) for _, _, values in self.columns]
        for (name, kind, _), part in zip(self.columns, parts):
            data += text(name) + varint(kind) + varint(len(part))
        return data + b"".join(parts)


class EditedSnapshot:
    def __init__(self, data):
        self.header = data[:HEADER]
        at, size = struct.unpack_from("<2Q", data, len(data) - FOOTER)
        index, end = [], at + size
        while at < end:
            section = Section(data[at:end])
            index += read_table(section)[1]
            at += section.length
        self.sections = []
        for row in index:
            section = Section(data[row["offset"]:row["offset"] + row["length"]])
            columns = [Column(number, section.column(number)) for number in section.stored]
            self.sections.append(EditedSection(section.kind, section.items, row["begin"], columns))

    def copy(self):
        copied = EditedSnapshot.__new__(EditedSnapshot)
        copied.header, copied.sections = self.header, [section.copy() for section in self.sections]
        return copied

    def bytes(self):
        data, rows = bytearray(self.header), []
        for section in self.sections:
            part = section.bytes()
            row = {"kind": section.kind, "offset": len(data), "length": len(part), "items": section.items,
                   "begin": section.begin}
            rows.append(row | section.row)
            data += part
        columns, last = [], {"offset": 0, "begin": 0}
        for name, kind in ("kind", 1), ("offset", 3), ("length", 1), ("items", 1), ("begin", 3):
            values = []
            for row in rows:
                if kind == 1:
                    values.append(varint(row[name]))
                else:
                    step = (row[name] - last[name]) & MASK
                    values.append(signed(step - (step >> 63 << 64)))
                    last[name] = row[name] & MASK
            columns.append((name.encode(), kind, b"".join(values)))
        table = text(b"index") + varint(len(rows)) + varint(len(columns))
        table += b"".join(text(name) + varint(kind) + varint(len(values)) for name, kind, values in columns)
        table += b"".join(values for _, _, values in columns)
        index = EditedSection(INDEX, len(rows), 0, [Column(1, table)]).bytes()
        return bytes(data) + index + footer(len(data), len(index))


def footer(index, length):
    fields = struct.pack("<3Q", index & MASK, length & MASK, (index + length + FOOTER) & MASK)
    return fields + struct.pack("<Q", xxh64(fields)) + b"HSNAPEND"
