"""One damaged snapshot, made from others and a seed: most are put together again with right checksums, so that what is
wrong in them gets past these."""

from byte_damage import ByteDamage
from snapshot_file import (Column, Damaged, EditedSection, EditedSnapshot, EditedTable, compressed, footer, signed,
                           text, varint, xxh64, zstd_frame)

CHUNKS, PAGES, CONTENTS, TABLE, MMAPPED, _, STACKS, REFERENCES, ROOTS, TYPES, BLOCK_TYPES = range(1, 12)
TABLES = (TABLE, MMAPPED, STACKS, ROOTS, TYPES)


class SnapshotDamage:
    """Makes the damaged file of one seed."""

    def __init__(self, bases, seed):
        self.random = ByteDamage(seed)
        self.bases = bases
        self.name = self.random.choice(sorted(bases))
        self.kinds = []

    def make(self):
        raw = self.bases[self.name]
        ways = [(self.raw_bytes, 1), (self.raw_repaired, 2), (self.edited, 9)]
        way = self.random.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
        return way(bytearray(raw))

    def raw_bytes(self, data):
        how = self.random.randrange(4)
        self.kinds.append(("cut off", "bytes", "splice", "footer")[how])
        if how == 0:
            del data[self.random.randrange(len(data)):]
        elif how == 1:
            for _ in range(self.random.randrange(1, 4)):
                self.random.change(data)
        elif how == 2:
            other = self.bases[self.random.choice(sorted(self.bases))]
            data[self.random.randrange(len(data)):] = other[self.random.randrange(len(other)):]
        else:
            self.random.change_word(data, len(data) - 40 + 8 * self.random.randrange(4), 8)
            data[-16:-8] = xxh64(bytes(data[-40:-16])).to_bytes(8, "little")
        return bytes(data)

    def raw_repaired(self, data):
        """Bytes change within sections whose lengths stay; each gets its checksum right again."""
        self.kinds.append("bytes under right checksums")
        places, at = [], 16
        index = int.from_bytes(data[-40:-32], "little")
        while at < len(data) - 40:
            length = int.from_bytes(data[at + 8:at + 12], "little")
            places.append((at, at + length))
            at += length
        for _ in range(self.random.randrange(1, 5)):
            # Index sections, too; the head of a section as often as the rest.
            begin, end = self.random.choice([*places, places[-1]])
            at = begin + self.random.randrange(min(end - 8 - begin, self.random.choice((40, 1 << 30))))
            self.random.change_word(data, at, self.random.choice((1, 1, 2, 4, 8)))
            data[end - 8:end] = xxh64(bytes(data[begin:end - 8])).to_bytes(8, "little")
        return bytes(data[:-40]) + footer(index, len(data) - 40 - index)

    def edited(self, data):
        snapshot = EditedSnapshot(bytes(data))
        ways = [(self.value_in_table, 6), (self.shape_of_table, 2), (self.chunk_block, 4), (self.column_bytes, 3),
                (self.frame, 2), (self.section_head, 2), (self.index_row, 2), (self.whole_sections, 2),
                (self.lists, 2), (self.references, 3)]
        # Metadata of another file lead into code that its own do not.
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            way = self.random.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
            self.kinds.append(way.__name__)
            try:
                way(snapshot)
            except (Damaged, LookupError, ValueError):
                pass  # what was damaged before has not the parts for this
        return snapshot.bytes()

    def section(self, snapshot, kinds=None):
        fitting = [section for section in snapshot.sections
                   if section.columns and (kinds is None or section.kind in kinds)]
        if not fitting:
            raise Damaged("no such section")
        return self.random.choice(fitting)

    def table(self, snapshot):
        section = self.section(snapshot, TABLES)
        return section, EditedTable(section.columns[0].data)

    def value_in_table(self, snapshot):
        section, table = self.table(snapshot)
        for _ in range(self.random.choice((1, 1, 2, 8))):
            _, kind, values = self.random.choice(table.columns)
            if not values:
                continue
            at = self.random.randrange(len(values))
            if kind == 4:
                values[at] = text(self.random.choice((b"", b"\0", b"\x1b[31m\n", b"/" * 5000, b"\xff\xfe", b"A" * 70000,
                                                      b"a;b 1\n\"}],\\", b"std::vector<" * 900,
                                                      b"../../../etc/passwd", b"[heap]", b"/dev/zero",
                                                      self.random.randbytes(40))))
            else:
                old, shift = 0, 0
                for byte in values[at]:
                    old |= (byte & 0x7F) << shift
                    shift += 7
                values[at] = varint(self.random.number(old))
        section.columns[0].data = table.bytes()

    def shape_of_table(self, snapshot):
        section, table = self.table(snapshot)
        column, how = self.random.choice(table.columns), self.random.randrange(8)
        if how == 0:
            table.rows = self.random.number(table.rows)
        elif how == 1:
            column[1] = self.random.choice((0, 1, 2, 3, 4, 5, 1 << 40))
        elif how == 2:
            column[0] = self.random.choice((b"", b"\n", self.random.choice(table.columns)[0]))
        elif how == 3:
            table.columns.remove(column)
        elif how == 4:
            table.columns.append(column)
        elif how == 5:
            table.rows *= 2
            for other in table.columns:
                other[2] = other[2] * 2
        elif how == 6:
            table.name = self.random.choice([b"", b"index", b"stacks", b"process", b"mappings", b"arenas", b"tracker",
                                             b"stack_nodes", b"segments", b"malloc_instances"])
        else:
            table.rows, table.columns = self.random.choice(((0, []), (5, []), (0, table.columns)))
        section.items = table.rows if self.random.random() < 0.8 else self.random.number(table.rows)
        section.columns[0].data = table.bytes()

    def chunk_block(self, snapshot):
        """Parts of a block that fit together and say something odd."""
        section = self.section(snapshot, (CHUNKS,))
        columns = {column.number: column for column in section.columns}
        how = self.random.randrange(6)
        if how == 0:
            head = [signed(self.random.choice((-1, 0, 1, 2, 1 << 31, -1 << 63))),
                    varint(self.random.choice((0, 1, 3, 1 << 32))),
                    varint(self.random.choice((0, 3, 4, 16, 17, 63, 64)))]
            columns[1].data = b"".join(head) + varint(self.random.number()) + varint(section.items)
        elif how == 1:
            codes = bytearray(columns[2].data)
            for _ in range(self.random.randrange(1, 30)):
                codes[self.random.randrange(len(codes))] = self.random.choice((0, 1, 2, 254))
            columns[2].data = bytes(codes)
        elif how == 2:
            columns[2].data = b"\xff" * section.items
            columns[3].data = varint(self.random.number()) * section.items
        elif how == 3:
            spare = section.items % 8
            columns[4].data = b"\xff" * (section.items // 8) + (bytes([(1 << spare) - 1]) if spare else b"")
            columns[5].data = bytes([self.random.randrange(256)]) * ((section.items + 1) // 2)
        elif how == 4:
            for number in 6, 7:
                if number in columns:
                    columns[number].data = self.random.randbytes(len(columns[number].data))
        else:
            # As many chunks as a block may have, from a few bytes.
            section.items = 1 << self.random.choice((16, 18, 20, 21))
            arena = columns[1].data[:1]
            columns[1].data = arena + varint(0) + varint(4) + varint(4096) + varint(section.items)
            for number, data in (2, b""), (3, b""), (4, b""), (5, b""):
                if number in columns:
                    columns[number].data = data
            columns[2].encoding, columns[2].raw_length = 1, section.items
            columns[2].stored = zstd_frame(b"\2", repeated=section.items - 1)
            if 4 in columns:
                columns[4].encoding, columns[4].raw_length = 1, section.items // 8
                columns[4].stored = zstd_frame(b"", repeated=section.items // 8)

    def column_bytes(self, snapshot):
        column = self.random.choice(self.section(snapshot).columns)
        data = bytearray(column.data)
        for _ in range(self.random.randrange(1, 4)):
            self.random.change(data)
        column.data = bytes(data)
        if self.random.random() < 0.3:
            column.encoding, column.raw_length = 1, len(data)
            column.stored = compressed(column.data) if self.random.random() < 0.5 else zstd_frame(column.data)

    def frame(self, snapshot):
        column = self.random.choice(self.section(snapshot).columns)
        how, size = self.random.randrange(7), len(column.data)
        column.encoding, column.raw_length = 1, size
        if how == 0:
            column.stored = zstd_frame(column.data, claimed=self.random.number(size))
        elif how == 1:
            zeros = self.random.choice((1 << 16, 15 << 20, 17 << 20))
            column.stored, column.raw_length = zstd_frame(column.data, repeated=zeros), size + zeros
        elif how == 2:
            frame = bytearray(compressed(column.data))
            for _ in range(self.random.randrange(1, 4)):
                self.random.change(frame)
            column.stored = bytes(frame)
        elif how == 3:
            column.stored = zstd_frame(column.data) * 2
        elif how == 4:
            column.stored = compressed(column.data)[:-self.random.randrange(1, 8)]
        elif how == 5:
            column.stored, column.raw_length = zstd_frame(column.data, claimed=1 << 62), self.random.number(size)
        else:
            column.stored, column.encoding = column.data, self.random.choice((0, 1, 2, 255))
            column.raw_length = self.random.number(size)

    def section_head(self, snapshot):
        section = self.section(snapshot)
        column, how = self.random.choice(section.columns), self.random.randrange(7)
        if how == 0:
            section.kind = self.random.choice((0, *range(1, 13), 0xFFFF))
        elif how == 1:
            section.items = self.random.number(section.items)
        elif how == 2:
            section.count = self.random.choice((0, len(section.columns) + 1, 64, 65, 0xFFFF))
        elif how == 3:
            section.length = self.random.number(len(section.bytes()))
        elif how == 4:
            column.number = self.random.choice((0, *range(1, 9), 0xFFFF))
        elif how == 5:
            column.stored_length = self.random.number(len(column.data))
        else:
            column.raw_length = self.random.number(len(column.data))

    def index_row(self, snapshot):
        section = self.random.choice(snapshot.sections)
        for _ in range(self.random.choice((1, 1, 2))):
            name = self.random.choice(("kind", "offset", "length", "items", "begin"))
            section.row[name] = self.random.number(self.random.choice((0, section.items, section.begin, 16)))

    def whole_sections(self, snapshot):
        how, sections = self.random.randrange(5), snapshot.sections
        at = self.random.randrange(len(sections))
        if how == 0:
            del sections[at]
        elif how == 1:
            sections.insert(self.random.randrange(len(sections)), sections[at].copy())
        elif how == 2:
            self.random.shuffle(sections)
        elif how == 3:
            other = EditedSnapshot(self.bases[self.random.choice(sorted(self.bases))])
            sections.insert(at, self.random.choice(other.sections))
        else:
            # The metadata of one process with the chunks and stacks of another.
            other = EditedSnapshot(self.bases[self.random.choice(sorted(self.bases))])
            taken = self.random.choice(((CHUNKS,), (TABLE,), (STACKS,), (CHUNKS, STACKS), (PAGES,),
                                        (CONTENTS, MMAPPED), (REFERENCES,), (ROOTS,), (TYPES, BLOCK_TYPES)))
            sections[:] = [s for s in sections if s.kind not in taken] + [s for s in other.sections if s.kind in taken]
            if not sections:
                sections.append(EditedSection(TABLE, 0, 0, [Column(1, b"")]))

    def lists(self, snapshot):
        """Runs of pages and ranges of contents, and long chains of frames."""
        how = self.random.randrange(4)
        if how == 0:
            section = self.section(snapshot, (PAGES,))
            size = self.random.choice((0, 511, 512, 4096, 1 << 30, 1 << 31, 1 << 63))
            runs = [varint(self.random.number() | self.random.randrange(16))
                    for _ in range(self.random.randrange(1, 9))]
            section.items = len(runs)
            section.columns[0].data = varint(size) + varint(self.random.number() & -4096) + b"".join(runs)
        elif how == 1:
            section = self.section(snapshot, (PAGES,))
            section.items = 200000
            section.columns[0].data = varint(4096) + varint(0x10000) + varint(0x12) * section.items
        elif how == 2:
            section = self.section(snapshot, (CONTENTS,))
            ranges = [self.random.number(), self.random.number(len(section.columns[-1].data))]
            section.items, section.columns[0].data = 1, b"".join(varint(number) for number in ranges)
        else:
            section = self.section(snapshot, (STACKS,))
            rows = self.random.choice((20, 4000, 5000, 100000))
            values = [(b"parent", 1, b"".join(varint(max(row - 1, 0)) for row in range(rows))),
                      (b"module", 2, signed(self.random.choice((-1, 0, 1 << 40))) * rows),
                      (b"return_address", 3, signed(16) * rows)]
            table = text(b"stack_nodes") + varint(rows) + varint(len(values))
            table += b"".join(text(name) + varint(kind) + varint(len(part)) for name, kind, part in values)
            section.items, section.columns[0].data = rows, table + b"".join(part for _, _, part in values)

    def references(self, snapshot):
        """References and types of blocks: others, too many of them, and shapes that walks find hard."""
        section = self.section(snapshot, (REFERENCES, BLOCK_TYPES))
        columns = {column.number: column for column in section.columns}
        how = self.random.randrange(6)
        if how == 0:
            columns[1].data = varint(self.random.number())
        elif how == 1:
            column = self.random.choice(section.columns)
            column.data = self.random.choice((bytes, self.random.randbytes))(len(column.data))
        elif how == 2:
            column = self.random.choice(section.columns)
            column.data = b"\xff" * len(column.data)
        elif how == 3 and section.kind == REFERENCES:
            columns[4].data = b"\xff" * len(columns[4].data)
            large = b"".join(varint(self.random.number()) for _ in columns[4].data)
            section.columns = [column for column in section.columns if column.number != 5] + [Column(5, large)]
        elif section.kind == REFERENCES:
            self.rewire(snapshot, section)
        else:
            section.items = self.random.number(section.items)

    def rewire(self, snapshot, section):
        """One chain, all blocks to one, each to itself, and a ladder: two references each, to the next two."""
        blocks, shape = section.items, self.random.randrange(4)
        counts, offsets, targets = bytearray(), bytearray(), []
        for block in range(blocks):
            reached = ([(block + 1) % blocks], [0], [block], [min(block + i, blocks - 1) for i in (1, 2)])[shape]
            counts.append(len(reached))
            last = block
            for i, target in enumerate(reached):
                offsets.append(min(i, 1))
                step = target - last
                targets.append(step * 2 if step >= 0 else -step * 2 - 1)
                last = target
        planes = b"".join(bytes(target >> 8 * plane & 0xFF for target in targets) for plane in range(4))
        section.columns = [Column(1, varint(0)), Column(2, bytes(counts)), Column(4, bytes(offsets)),
                           Column(6, planes), Column(7, bytes((len(targets) + 7) // 8))]
        for other in snapshot.sections:
            table = EditedTable(other.columns[0].data) if other.kind == TABLE else None
            if table and table.name == b"references":
                for column in table.columns:
                    if column[0] == b"references":
                        column[2] = [varint(len(targets))]
                other.columns[0].data = table.bytes()
