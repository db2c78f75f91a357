"""Random damage to bytes, the same for the same seed."""

import random

NUMBERS = [0, 1, 2, 7, 8, 15, 16, 0x7F, 0x80, 0xFF, 0x100, 0xFFF, 0x1000, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFFFF,
           0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 1 << 40, 1 << 47, (1 << 47) - 4096,
           1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 4096, (1 << 64) - 2, (1 << 64) - 1]


class ByteDamage(random.Random):
    def number(self, near=None):
        """Mostly one that borders on something; or one near another."""
        if near is not None and self.random() < 0.4:
            return (near + self.choice((-1, 1, -8, 8, -16, 16, -4096, 4096))) & ((1 << 64) - 1)
        if self.random() < 0.7:
            return self.choice(NUMBERS)
        return self.getrandbits(self.randrange(1, 65))

    def change_word(self, data, at, size):
        word = data[at:at + size]
        old = int.from_bytes(word, "little")
        data[at:at + size] = (self.number(old) & ((1 << 8 * len(word)) - 1)).to_bytes(len(word), "little")

    def change(self, data):
        """Changes the bytearray in one place; its length too."""
        if not data:
            data += self.randbytes(self.randrange(1, 9))
            return
        at, how = self.randrange(len(data)), self.randrange(9)
        if how <= 1:
            data[at] ^= 1 << self.randrange(8)
        elif how == 2:
            data[at] = self.choice((0, 0x7F, 0x80, 0xFF, self.randrange(256)))
        elif how == 3:
            self.change_word(data, at, self.choice((2, 4)))
        elif how == 4:
            self.change_word(data, at, 8)
        elif how == 5:
            del data[at:]
        elif how == 6:
            del data[at:at + self.randrange(1, 64)]
        elif how == 7:
            data[at:at] = self.choice((self.randbytes(self.randrange(1, 32)), b"\xff" * 10, b"\0" * 64,
                                       bytes(data[at:at + self.randrange(1, 4096)])))
        else:
            begin, size = self.randrange(len(data)), self.randrange(1, 256)
            data[at:at + size] = data[begin:begin + size]
