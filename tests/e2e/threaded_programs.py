"""Interpreters, a virtual machine and a compiler that allocate and free in several threads, for tests that attach to
them. Each checks its own data as it goes and ends with an error when something in it is wrong. As servers.py's
classes; `turn` selects among the options a program can be started with."""

import contextlib
import json
import os
import subprocess
import threading
import time

import servers

JAVA = r"""
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Random;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

public class Load {
  interface Work { void turn(Random random) throws Exception; }

  static final Unsafe unsafe = unsafe();

  static Unsafe unsafe() {
    try {
      Field field = Unsafe.class.getDeclaredField("theUnsafe");
      field.setAccessible(true);
      return (Unsafe) field.get(null);
    } catch (ReflectiveOperationException error) {
      throw new AssertionError(error);
    }
  }

  static void always(Work work, long seed) {
    Thread thread = new Thread(() -> {
      Random random = new Random(seed);
      try {
        while (true) {
          work.turn(random);
          Thread.sleep(random.nextInt(4));  // who attaches wants some of the processors
        }
      } catch (Throwable error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(3);
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  static void direct(Random random) throws InterruptedException {
    ByteBuffer buffer;
    try {
      buffer = ByteBuffer.allocateDirect(1 + random.nextInt(1 << (8 + random.nextInt(14))));
    } catch (OutOfMemoryError late) {  // the collector has yet to free some of them
      Thread.sleep(10);
      return;
    }
    buffer.put(buffer.capacity() - 1, (byte) 1);
    if (buffer.get(0) != (buffer.capacity() == 1 ? 1 : 0)) throw new AssertionError("a dirty buffer");
  }

  // Plain malloc, realloc and free, some of them of mapped blocks.
  static void raw(Random random) {
    long[] blocks = new long[64];
    for (int i = 0; i < blocks.length; i++) {
      int size = 16 + random.nextInt(1 << (6 + random.nextInt(15)));
      blocks[i] = unsafe.allocateMemory(size);
      unsafe.putLong(blocks[i], blocks[i] ^ size);
      if (random.nextInt(4) == 0) {
        blocks[i] = unsafe.reallocateMemory(blocks[i], size * 2L);
        unsafe.putLong(blocks[i], blocks[i] ^ size);
      }
      if (random.nextInt(2) == 0) {
        unsafe.freeMemory(blocks[i]);
        blocks[i] = 0;
      }
    }
    for (long block : blocks) if (block != 0) unsafe.freeMemory(block);
  }

  static void zip(Random random) throws Exception {
    byte[] text = new byte[1 + random.nextInt(100000)];
    for (int i = 0; i < text.length; i++) text[i] = (byte) random.nextInt(7);
    Deflater deflater = new Deflater();
    deflater.setInput(text);
    deflater.finish();
    byte[] packed = new byte[text.length + 1000];
    int size = deflater.deflate(packed);
    deflater.end();
    Inflater inflater = new Inflater();
    inflater.setInput(packed, 0, size);
    byte[] again = new byte[text.length];
    inflater.inflate(again);
    inflater.end();
    if (!Arrays.equals(text, again)) throw new AssertionError("unpacked text differs");
  }

  static void shortThreads(Random random) throws Exception {
    ArrayList<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      long seed = random.nextLong();
      Thread thread = new Thread(null, () -> raw(new Random(seed)), "short", 256 << 10 << random.nextInt(3));
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) thread.join();
  }

  // The same class again and again, hot enough to be compiled each time.
  static final class Again extends ClassLoader {
    Class<?> define(byte[] code) { return defineClass("Hot", code, 0, code.length); }
  }

  static void compiled(Random random) throws Exception {
    byte[] code = Load.class.getResourceAsStream("Hot.class").readAllBytes();
    Method run = new Again().define(code).getMethod("run", int.class);
    run.setAccessible(true);  // its class is in another package of the same name
    Object sum = run.invoke(null, 30000);
    if (!sum.equals(Hot.run(30000))) throw new AssertionError("compiled code differs");
    Thread.sleep(20);
  }

  static void javaHeap(Random random) {
    ArrayList<String> texts = new ArrayList<>();
    for (int i = 0; i < 2000; i++) texts.add(Integer.toString(random.nextInt()).repeat(10));
    if (texts.stream().mapToInt(String::length).sum() < 20000) throw new AssertionError("texts are short");
  }

  public static void main(String[] arguments) throws Exception {
    Work[] works = {Load::direct, Load::raw, Load::raw, Load::zip, Load::shortThreads, Load::compiled, Load::javaHeap};
    for (int i = 0; i < works.length; i++) always(works[i], i);
    System.out.print(".");
    System.out.flush();
    while (System.in.read() >= 0) { }
  }
}

class Hot {
  static int step(int value) { return Integer.rotateLeft(value * 31 + 7, value & 7); }
  public static int run(int count) {
    int value = 1;
    for (int i = 0; i < count; i++) value = step(value);
    return value;
  }
}
"""

NODE = r"""
const {Worker, isMainThread, workerData} = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');
function turn(seed) {
  const kept = [];
  for (let i = 0; i < 200; i++) {
    const size = 1 + ((seed * 7919 + i * 104729) % (1 << (8 + i % 14)));
    const buffer = Buffer.alloc(size, i & 255);
    if (buffer[size - 1] !== (i & 255)) throw new Error('a buffer lost its bytes');
    if (i % 5 === 0) kept.push(buffer);
  }
  const text = crypto.randomBytes(1 + seed % 50000).toString('hex');
  if (zlib.gunzipSync(zlib.gzipSync(text)).toString() !== text) throw new Error('unpacked text differs');
  const rows = [];
  for (let i = 0; i < 300; i++) rows.push({id: i, text: 'x'.repeat(i)});
  if (JSON.parse(JSON.stringify(rows)).length !== 300) throw new Error('rows were lost');
}
if (isMainThread) {
  const start = seed => new Worker(__filename, {workerData: seed})
      .on('error', error => { console.error(error); process.exit(3); });
  start(1); start(2);
  let seed = 100;
  const shortLived = () => start(seed++).on('exit', shortLived);  // a thread after the other
  shortLived();
  for (let i = 0; i < 4; i++) {
    const again = () => zlib.gzip(crypto.randomBytes(100000), error => {
      if (error) throw error;
      setTimeout(again, 10);
    });
    again();
  }
  process.stdout.write('.');
  process.stdin.on('end', () => process.exit(0)).resume();
} else {
  const rest = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 0; workerData < 100 || i < 20; i++) {
    turn(workerData + i);
    Atomics.wait(rest, 0, 0, 10);  // who attaches wants some of the processors
  }
}
"""

PERL = r"""
use threads;
sub work {
  my ($seed) = @_;
  my %kept;
  for (my $i = 0; $seed < 100 || $i < 2000; $i++) {
    my $key = int(rand(5000));
    my $text = 'x' x int(rand($i % 50 ? 400 : 300000));
    die "a text changed\n" if exists $kept{$key} && $kept{$key}[0] != length $kept{$key}[1];
    $kept{$key} = [length $text, $text];
    delete $kept{int(rand(5000))};
    my @sorted = sort { $a <=> $b } map { rand } 1 .. $i % 300;
    $text =~ s/xx/y/g;
    select(undef, undef, undef, 0.002) if $i % 20 == 0;  # who attaches wants some of the processors
  }
}
threads->create(\&work, $_)->detach for 1 .. 3;
threads->create(sub { for (my $seed = 100;; $seed++) { threads->create(\&work, $seed)->join } })->detach;
$| = 1;
print '.';
<STDIN>;
"""

CPP = """
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
template <typename K, typename V> struct Table { std::map<K, std::vector<V>> rows; V& at(const K& key) { return rows[key].back(); } };
int fill_NUMBER() {
  Table<std::string, std::unordered_map<int, std::function<int(int)>>> table;
  std::regex pattern("[a-z]+NUMBER");
  std::vector<std::thread> threads;
  std::sort(threads.begin(), threads.end(), [](auto& a, auto& b) { return a.get_id() < b.get_id(); });
  return static_cast<int>(table.rows.size());
}
"""


class Program(servers.Script):
    """A script in a file of its own that prints a dot when it has begun."""

    file, source, settings = "", "", ({},)

    def __init__(self, folder, turn=0):
        super().__init__(folder)
        self.turn = turn

    def command(self):
        return [self.find(self.programs[0]), self.file]

    def setting(self):
        return self.settings[self.turn % len(self.settings)]

    def start(self):
        with open(f"{self.folder}/{self.file}", "w", encoding="utf-8") as file:
            file.write(self.source)
        log = open(f"{self.folder}/log", "ab")
        self.server = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                       cwd=self.folder, env={**os.environ, **self.setting().get("env", {})})
        if self.server.stdout.read(1) != b".":
            raise RuntimeError(f"{self.name} did not start: {self.log_tail()}")


class Java(Program):
    name = "java"
    programs = ("java", "javac")
    file, source = "Load.java", JAVA
    mapped = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # else it grows, and soon nothing is mapped
    settings = (
        {"options": []},
        {"options": ["-XX:+UseParallelGC"], "env": mapped},
        {"options": ["-XX:+UseTransparentHugePages"]},
        {"options": ["-XX:+UseSerialGC", "-Xint"], "env": {"MALLOC_ARENA_MAX": "1"}},
        {"options": ["-XX:+UseG1GC", "-XX:ParallelGCThreads=8", "-XX:ConcGCThreads=4"], "env": mapped},
        {"options": ["-XX:+UseShenandoahGC"]},
        {"options": ["-XX:+UseZGC"], "env": mapped},
        {"options": ["-XX:+UseG1GC", "-XX:+AlwaysPreTouch", "-Xms200m", "-Xss8m"]},
        {"options": ["-XX:NativeMemoryTracking=detail"], "env": mapped},
        {"options": ["-XX:+UseNUMA", "-XX:TieredStopAtLevel=1"], "env": {"MALLOC_TOP_PAD_": "1048576"}},
    )

    def start(self):
        with open(f"{self.folder}/{self.file}", "w", encoding="utf-8") as file:
            file.write(self.source)
        subprocess.run([self.find("javac"), "-nowarn", "-XDignore.symbol.file", self.file], check=True,
                       capture_output=True, cwd=self.folder)
        super().start()

    def command(self):
        return [self.find("java"), "-Xmx256m", "-XX:MaxDirectMemorySize=128m", *self.setting()["options"], "Load"]


class Node(Program):
    name = "node"
    programs = ("node",)
    file, source = "load.js", NODE


class Perl(Program):
    name = "perl"
    programs = ("perl",)
    file, source = "load.pl", PERL


class Python(Program):
    name = "python"
    programs = servers.Python.programs
    file, source = "load.py", r"""
import json, random, sys, threading, time, zlib
def work(seed):
    kept = {}
    count = 0
    while seed < 100 or count < 2000:
        count += 1
        rows = list(range(random.randrange(400 if count % 50 else 100000)))
        text = json.dumps(rows)
        kept[random.randrange(5000)] = (len(rows), text)
        kept.pop(random.randrange(5000), None)
        if zlib.decompress(zlib.compress(text.encode())) != text.encode(): fail("unpacked text differs")
        size, text = random.choice(list(kept.values())) if count % 100 == 0 and kept else (len(rows), text)
        if len(json.loads(text)) != size: fail("a text changed")
        if count % 10 == 0: time.sleep(0.005)  # who attaches wants some of the processors
def fail(why):
    print(why, file=sys.stderr); sys.stderr.flush()
    import os; os._exit(3)
def one_after_the_other():
    for seed in range(100, 1 << 60):
        thread = threading.Thread(target=work, args=(seed,), daemon=True)
        thread.start(); thread.join()
for seed in range(3): threading.Thread(target=work, args=(seed,), daemon=True).start()
threading.Thread(target=one_after_the_other, daemon=True).start()
sys.stdout.write("."); sys.stdout.flush(); sys.stdin.read()
"""


class Clangd(servers.Server):
    """Asked again and again about a file that changes each time."""

    name = "clangd"
    programs = (("clangd", "clangd-14"),)

    def __init__(self, folder, turn=0):
        super().__init__(folder)
        self.turn = turn
        self.wrong = None
        self.is_stopping = False
        self.answers = 0
        self.asker = None

    def start(self):
        self.server = subprocess.Popen([self.find(self.programs[0]), "-j=4", "--background-index=0", "--log=error"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=open(f"{self.folder}/log", "ab"), cwd=self.folder)
        self.ask("initialize", {"processId": None, "rootUri": f"file://{self.folder}", "capabilities": {}})
        self.asker = threading.Thread(target=self.ask_always, daemon=True)
        self.asker.start()

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def ask(self, method, parameters):
        self.send({"id": self.answers, "method": method, "params": parameters})
        while True:
            size = 0
            while (line := self.server.stdout.readline()) != b"\r\n":
                if not line:
                    raise RuntimeError("clangd ended")
                if line.startswith(b"Content-Length:"):
                    size = int(line.split(b":")[1])
            answer = json.loads(self.server.stdout.read(size))
            if answer.get("id") == self.answers:
                self.answers += 1
                if "result" not in answer:
                    raise RuntimeError(f"clangd answers {method} with {answer}")
                return answer["result"]

    def ask_always(self):
        try:
            for turn in range(1 << 60):
                if self.is_stopping:
                    return
                document = {"uri": f"file://{self.folder}/file{turn % 4}.cpp"}
                text = CPP.replace("NUMBER", str(turn))
                if turn < 4:
                    self.send({"method": "textDocument/didOpen", "params": {"textDocument": {
                        **document, "languageId": "cpp", "version": turn, "text": text}}})
                else:
                    self.send({"method": "textDocument/didChange", "params": {
                        "textDocument": {**document, "version": turn}, "contentChanges": [{"text": text}]}})
                if turn % 2:
                    continue  # files are parsed beside each other
                symbols = self.ask("textDocument/documentSymbol", {"textDocument": document})
                if f"fill_{turn}" not in json.dumps(symbols):
                    raise RuntimeError(f"clangd names {symbols} in {text}")
                time.sleep(0.05)  # who attaches wants some of the processors
                line = text.count("\n", 0, text.index("threads.begin"))
                self.ask("textDocument/completion", {"textDocument": document,
                                                     "position": {"line": line, "character": 20}})
        except (RuntimeError, OSError, ValueError) as error:
            if not self.is_stopping:
                self.wrong = str(error)[:500]

    def healthy(self):
        return super().healthy() or self.wrong

    def stop(self):
        self.is_stopping = True
        servers.end(self.server)
        if self.asker:
            self.asker.join(20)
        if self.server:
            with contextlib.suppress(BrokenPipeError):  # of a question that it did not live to read
                self.server.stdin.close()
            self.server.stdout.close()


ALL = (Java, Node, Perl, Python, Clangd)
