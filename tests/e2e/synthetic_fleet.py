"""Rows of a fleet that does not exist, and what the queries of packaging/fleet have to say of them.

Each host runs each target; each has a snapshot every `step` hours. Some processes leak, some sizes and stacks grow,
some targets are replaced by a new build half-way. The answers are computed here from the numbers, in Python alone."""

import array
import dataclasses
import operator
import random

HOUR = 3_600_000
WEEK = 7 * 24 * HOUR
BEGIN = 489_940 * HOUR  # on 2025-11-22, so that a fleet of ten days is in two months, none of it ahead of now
ACCOUNT = ("used", "mmapped", "overhead", "tcache", "fastbin", "bins", "top", "unwalked", "stacks", "files", "file_data",
           "shared", "tracker", "other_anonymous", "unknown")


@dataclasses.dataclass(frozen=True)
class Shape:
    hosts: int
    targets: int
    snapshots: int  # of each target on each host
    step: int       # hours from one to the next
    sizes: int
    stacks: int
    owners: int = 3

    def rows(self):
        # Two arenas, what is leaked, and the process.
        per_snapshot = len(ACCOUNT) + self.sizes + 2 + self.stacks + self.owners + 1 + 1
        return self.hosts * self.targets * self.snapshots * per_snapshot


class Run:
    """A process: its times, and the bytes of each row at these."""

    def __init__(self, host, target, boot_id, pid, start_time, build_id):
        self.host, self.target, self.boot_id, self.pid, self.start_time = host, target, boot_id, pid, start_time
        self.build_id = build_id
        self.times = []
        self.values = {}  # by kind and name or id

    def add(self, kind, name, value):
        self.values.setdefault((kind, name), array.array("q")).append(value)

    def common(self, time):
        def quoted(text):
            return "null" if text is None else f'"{text}"'
        return (f'"version":1,"host":"{self.host}","target":"{self.target}","boot_id":{quoted(self.boot_id)},'
                f'"pid":{self.pid},"start_time":{"null" if self.start_time is None else self.start_time},'
                f'"comm":"{self.target}","exe":"/opt/{self.target}","build_id":{quoted(self.build_id)},'
                f'"taken_at":"2026-11-22T00:00:00.000000000Z","taken_at_ms":{time}')


class SyntheticFleet:
    def __init__(self, shape, seed=1):
        self.shape, self.random = shape, random.Random(seed)
        self.runs = []
        self.size_growth = [self.random.randint(-2000, 9000) for _ in range(shape.sizes)]
        # One size is all freed before the week ends, one stack is only there in the second half.
        self.size_growth[0] = -9_000_000 // shape.snapshots
        self.row_count = 0
        self.owner_growth = [self.random.randint(-9000, 90_000) for _ in range(shape.owners)]
        self.stack_growth = [self.random.randint(-500, 4000) for _ in range(shape.stacks)]

    def snapshots(self):
        """(rows, frames) of each snapshot as lines, and the numbers on their way into `runs`."""
        for host in range(self.shape.hosts):
            for target in range(self.shape.targets):
                yield from self.of_target(host, target)

    def of_target(self, host, target):
        shape, rand = self.shape, self.random
        leak = rand.randint(1, 5) * 1_000_000 if (host + target) % 4 == 0 else 0
        # As of a core, and as of a snapshot that an older heapsnap took.
        boot_id = None if host == 1 and target == 1 else f"boot-{host}"
        build = None if (host, target) in ((0, 1), (2, 0)) else f"build-{target}-0"
        run = Run(f"host{host:04}", f"target{target}", boot_id, 100 + target, 5000 if boot_id else None, build)
        self.runs.append(run)
        for turn in range(shape.snapshots):
            if turn == shape.snapshots // 2 and target % 2 == 0:
                run = Run(run.host, run.target, boot_id, 200 + target, 9000, f"build-{target}-1")
                self.runs.append(run)
            time = BEGIN + turn * shape.step * HOUR + target * 1000 + host
            run.times.append(time)
            yield self.of_snapshot(run, time, turn, host, leak)

    def of_snapshot(self, run, time, turn, host, leak):
        noise, common, rows, frames = self.random.random, run.common(time), [], []

        def put(kind, name, value, line):
            run.add(kind, name, value)
            if value > 0 or kind not in ("size", "stack"):
                rows.append(line)

        for number, name in enumerate(ACCOUNT):
            value = (number + 1) * 3_000_000 + (leak * turn if name == "used" else 0) + int(noise() * 100_000)
            put("account", name, value, f'{{"kind":"account",{common},"name":"{name}","bytes":{value},"swapped":0}}\n')
        for number, growth in enumerate(self.size_growth):
            size = 16 * (number + 2)
            value = max(0, (8_000_000 if number == 0 else 400_000) + growth * turn + int(noise() * 20_000))
            put("size", f"{size} B", value,
                f'{{"kind":"size",{common},"name":"{size} B","size":{size},"blocks":{value // size},"bytes":{value},'
                f'"free_blocks":1,"free_bytes":{size}}}\n')
        for number in range(2):
            rows.append(f'{{"kind":"arena",{common},"name":"{number}","blocks":10,"bytes":{1 << 20},"free_blocks":2,'
                        '"free_bytes":64}\n')
        for number, growth in enumerate(self.stack_growth):
            value = max(0, 300_000 + growth * turn + int(noise() * 9000))
            if number == 0 and turn < self.shape.snapshots - self.shape.snapshots // 3:
                value = 0
            name = f"function{number % 97}"
            stack = f"{number:016x}"
            if turn == 0 and host == 0:
                frames.append(f'{{"kind":"frames",{common},"name":"{name}","id":"{stack}","frames":["{name}","main"]}}\n')
            put("stack", stack, value,
                f'{{"kind":"stack",{common},"name":"{name}","id":"{stack}","blocks":7,"bytes":{value},"allocations":9,'
                f'"frees":2,"allocated_bytes":{value + 99},"freed_bytes":99}}\n')
        for number, growth in enumerate(self.owner_growth):
            value = 30_000_000 + growth * turn + int(noise() * 90_000)
            put("owner", f"g_owner{number}", value,
                f'{{"kind":"owner",{common},"name":"g_owner{number}","blocks":{value // 48},"bytes":{value}}}\n')
        rows.append(f'{{"kind":"leaked",{common},"name":"leaked","blocks":3,"bytes":144}}\n')
        value = 200_000_000 + leak * turn + int(noise() * 900_000)
        put("process", run.target, value,
            f'{{"kind":"process",{common},"name":"{run.target}","blocks":50,"bytes":{value},"free_blocks":5,'
            f'"free_bytes":500,"swapped":0,"snapshot":"{run.host}/{run.target}/{time}-{run.pid}"}}\n')
        self.row_count += len(rows)
        return [line.encode() for line in rows], [line.encode() for line in frames]

    # What the queries say.

    def newest(self):
        return max(run.times[-1] for run in self.runs)

    def in_window(self, run, span):
        """The index of the first snapshot of the run that is in the last `span` of the table."""
        least = self.newest() - span
        return sum(1 for time in run.times if time <= least)

    def growing(self, kind):
        sums = {}
        for run in self.runs:
            first = self.in_window(run, WEEK)
            times = [time / (24 * HOUR) for time in run.times[first:]]
            if len(times) < 5:
                continue
            mean = sum(times) / len(times)
            spread = sum((time - mean) ** 2 for time in times)
            weights = [(time - mean) / spread for time in times]
            for (of, name), values in run.values.items():
                if of == kind and any(values[first:]):
                    slope = sum(map(operator.mul, weights, values[first:]))
                    one = sums.setdefault(name, [0.0, 0, 0, set(), 0])
                    one[0] += slope
                    one[1] += 1
                    one[2] += slope > 0
                    one[3].add(run.host)
                    one[4] += values[-1]
        return sorted(({"key": name, "bytes_per_day": one[0], "processes": one[1], "growing": one[2], "hosts": len(one[3]),
                        "bytes_now": one[4]} for name, one in sums.items()), key=lambda row: (-row["bytes_per_day"], row["key"]))[:50]

    def growing_sizes(self):
        return [{"name": row.pop("key"), **row} for row in self.growing("size")]

    def growing_owners(self):
        return [{"name": row.pop("key"), **row} for row in self.growing("owner")]

    def growing_stacks(self):
        rows = []
        for row in self.growing("stack"):
            stack = row.pop("key")
            name = f"function{int(stack, 16) % 97}"
            rows.append({"id": stack, "name": name, **row, "frames": [name, "main"]})
        return rows

    def leaking_hosts(self):
        rows = []
        for run in self.runs:
            first = self.in_window(run, WEEK)
            hours = [time // HOUR for time in run.times[first:]]
            levels = run.values["process", run.target][first:]
            assert len(set(hours)) == len(hours)
            if len(hours) < 5:
                continue
            slopes = sorted((levels[j] - levels[i]) / (hours[j] - hours[i])
                            for j in range(len(hours)) for i in range(j))
            middle = len(slopes) // 2
            median = slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2
            rising = sum(slope > 0 for slope in slopes) / len(slopes)
            if rising >= 0.8:
                rows.append({"host": run.host, "target": run.target, "pid": run.pid, "build_id": run.build_id,
                             "points": len(hours), "bytes_per_day": median * 24, "rising": rising, "bytes_now": levels[-1]})
        return sorted(rows, key=lambda row: (-row["bytes_per_day"], row["host"], row["target"], row["pid"]))[:50]

    def release(self):
        snapshots, sums, first = {}, {}, {}
        for run in self.runs:
            if run.build_id is None:
                continue
            build = run.target, run.build_id
            snapshots[build] = snapshots.get(build, 0) + len(run.times)
            first[build] = min(first.get(build, run.times[0]), run.times[0])
            for (kind, name), values in run.values.items():
                if kind in ("account", "size", "stack") and any(values):
                    key = run.target, kind, name
                    sums.setdefault(key, {}).setdefault(run.build_id, 0)
                    sums[key][run.build_id] += sum(values)
        rows = []
        for (target, kind, name), totals in sums.items():
            builds = sorted((build for owner, build in first if owner == target), key=lambda build: -first[target, build])
            if len(builds) < 2:
                continue
            after, before = (totals.get(build, 0) / snapshots[target, build] for build in builds[:2])
            is_stack = kind == "stack"
            rows.append({"target": target, "kind": kind, "name": f"function{int(name, 16) % 97}" if is_stack else name,
                         "id": name if is_stack else "", "before_build": builds[1], "after_build": builds[0],
                         "before_bytes": before, "after_bytes": after, "difference": after - before})
        return sorted(rows, key=lambda row: (-row["difference"], row["target"], row["kind"], row["name"], row["id"]))[:50]

    def memory_now(self):
        sums = {}
        for run in self.runs:
            if self.in_window(run, 24 * HOUR) == len(run.times):
                continue
            for (kind, name), values in run.values.items():
                if kind == "account":
                    one = sums.setdefault((run.target, name), [0, 0, set()])
                    one[0] += values[-1]
                    one[1] += 1
                    one[2].add(run.host)
        return sorted(({"target": target, "name": name, "bytes": one[0], "processes": one[1], "hosts": len(one[2])}
                       for (target, name), one in sums.items()),
                      key=lambda row: (-row["bytes"], row["target"], row["name"]))[:100]
