"""Reads a pprof profile (profile.proto of github.com/google/pprof), by the wire format alone."""

import gzip


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field: an int, or the bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length, at = varint(data, at)
            value = data[at:at + length]
            assert len(value) == length, "cut off"
            at += length
        yield key >> 3, value


def numbers(message, number):
    """A repeated field, which a writer may write packed, or one by one."""
    values = []
    for each, value in message:
        if each != number:
            continue
        if isinstance(value, int):
            values.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            values.append(one)
    return values


class Profile:
    """`types`: names of the values. `samples`: (frames, values), frames being the names of functions, innermost
    first. `time` and `texts` as they are there."""

    def __init__(self, compressed):
        every = list(fields(gzip.decompress(compressed)))
        self.texts = [value.decode() for number, value in every if number == 6]
        assert self.texts[0] == ""
        functions = {}
        for number, value in every:
            if number == 5:
                one = dict(fields(value))
                functions[one[1]] = self.texts[one[2]]
        places = {}
        for number, value in every:
            if number == 4:
                parts = list(fields(value))
                lines = [dict(fields(line)) for tag, line in parts if tag == 4]
                places[dict(parts)[1]] = [functions[line[1]] for line in lines]
        self.types = [self.texts[dict(fields(value))[1]] for number, value in every if number == 1]
        self.samples = []
        for number, value in every:
            if number == 2:
                sample = list(fields(value))
                frames = [name for place in numbers(sample, 1) for name in places[place]]
                self.samples.append((tuple(frames), tuple(numbers(sample, 2))))
        self.time = dict(every)[9]

    def only(self, *types):
        """Frames and the values of these types, of the samples that are not 0 in all of them."""
        columns = [self.types.index(each) for each in types]
        chosen = [(frames, tuple(values[column] for column in columns)) for frames, values in self.samples]
        return sorted(each for each in chosen if any(each[1]))
