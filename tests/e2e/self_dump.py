#!/usr/bin/env python3
"""Real programs dump themselves through libheapsnap: Ruby by Fiddle, PostgreSQL by its extension.

    self_dump.py ruby|postgresql HEAPSNAP LIBRARY_FOLDER SOURCE_FOLDER

HEAPSNAP is the program, LIBRARY_FOLDER holds libheapsnap.so. Exits 77, with the reason, where the
machine lacks what the test needs.
"""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile

SKIP = 77

RUBY = r"""
require 'fiddle'
library = Fiddle.dlopen(ARGV[0])
text, int = Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT
dump_self = Fiddle::Function.new(library['heapsnap_dump_self'], [text], int)
last_error = Fiddle::Function.new(library['heapsnap_last_error'], [], text)
main_heap = Fiddle::Function.new(library['dump_main_heap'], [text, text], Fiddle::TYPE_VOID)
others = Fiddle::Function.new(library['dump_non_main_heaps'], [text, text], Fiddle::TYPE_VOID)

child_signals = 0
trap('CLD') { child_signals += 1 }
threads = 4.times.map { Thread.new { loop { 'x' * rand(20_000) } } }
kept = 20_000.times.map { |i| 'kept' * (i % 400) }
block = Fiddle.malloc(123_457)

result = dump_self.call(ARGV[1])
abort "dump: #{result}: #{last_error.call}" unless result == 0
abort 'a second dump to the same file must fail' if dump_self.call(ARGV[1]) == 0
abort 'no reason was given' unless last_error.call.to_s.include?('exists')
main_heap.call(ARGV[2], nil)
abort "main heap: #{last_error.call}" unless last_error.call.to_s.empty?
others.call(ARGV[2], nil)
abort "other heaps: #{last_error.call}" unless last_error.call.to_s.empty?
threads.each(&:kill)
begin
  Process.wait(-1)
  abort 'a child was left behind'
rescue Errno::ECHILD
end
abort "#{child_signals} SIGCHLD" unless child_signals == 0
puts block.to_i, kept.size
"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def check(condition, what):
    if not condition:
        print("FAILED:", what)
        sys.exit(1)


def chunks_of(heapsnap, snapshot):
    """Exported header line, and the chunks by address."""
    run = subprocess.run([heapsnap, "export", snapshot, "--format", "ndjson"],
                         capture_output=True, check=True)
    lines = run.stdout.splitlines()
    chunks = {}
    for line in lines[1:]:
        row = json.loads(line)
        if row["kind"] == "chunk":  # the others name its type and its owner
            chunks[int(row["addr"], 16)] = row
    return json.loads(lines[0]), chunks


def check_snapshot_file(path, owner):
    status = os.stat(path)
    check(stat.S_IMODE(status.st_mode) == 0o600, f"{path} has mode {status.st_mode:o}")
    check(status.st_uid == owner, f"{path} belongs to {status.st_uid}")


def test_ruby(heapsnap, library, _source, folder):
    ruby = shutil.which("ruby")
    if not ruby:
        skip("ruby is not installed")
    if subprocess.run([ruby, "-rfiddle", "-e", ""], capture_output=True).returncode != 0:
        skip("this ruby has no fiddle")
    snapshot, text = f"{folder}/ruby.hsnap", f"{folder}/ruby.txt"
    run = subprocess.run([ruby, "-e", RUBY, library, snapshot, text], capture_output=True, text=True)
    check(run.returncode == 0, f"ruby: {run.stdout}{run.stderr}")
    block = int(run.stdout.split()[0])
    check_snapshot_file(snapshot, os.getuid())
    head, chunks = chunks_of(heapsnap, snapshot)
    check(head["comm"].startswith("ruby"), f"comm is {head['comm']}")
    check(block in chunks, "the block of 123457 bytes is not in the snapshot")
    check(chunks[block]["state"] == "used" and chunks[block]["usable"] >= 123457,
          f"the block is {chunks[block]}")
    with open(text, encoding="latin-1") as lines:
        dump = lines.readlines()
    heaps = [line for line in dump if line.startswith("Heap ")]
    check(len(heaps) >= 2, f"{len(heaps)} heaps in the text: main and others were expected")
    header = f"chunk {block - 16:#x} size"
    check(any(line.startswith(header) for line in dump), f"no line begins with {header}")


def start_postgresql(programs, data, socket, environment):
    def as_postgres(*command):
        return subprocess.run(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups",
                               *command], capture_output=True, text=True, env=environment, cwd=data)
    made = as_postgres(f"{programs}/initdb", "-D", f"{data}/db", "--no-sync", "-A", "trust")
    check(made.returncode == 0, f"initdb: {made.stdout}{made.stderr}")
    options = f"-c listen_addresses='' -c unix_socket_directories='{socket}' -c fsync=off"
    # pg_ctl's server keeps its standard output: a pipe would never end.
    started = as_postgres("sh", "-c", f"{programs}/pg_ctl -D {data}/db -o \"{options}\" "
                          f"-l {data}/log -w start >/dev/null 2>&1")
    check(started.returncode == 0, "the server did not start")
    return as_postgres


def test_postgresql(heapsnap, library, source, folder):
    if os.getuid() != 0:
        skip("installing the extension needs root")
    pg_config = shutil.which("pg_config")
    if not pg_config:
        skip("postgresql-server-dev is not installed")
    programs = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True).stdout.strip()
    if not os.path.exists(f"{programs}/initdb"):
        skip("the postgresql server is not installed")
    try:
        postgres = pwd.getpwnam("postgres")
    except KeyError:
        skip("there is no user postgres")

    build = f"{folder}/extension"
    shutil.copytree(f"{source}/packaging/postgresql", build)
    # Everything that the user postgres must reach is copied where it may go.
    for path in (heapsnap, library):
        shutil.copy2(path, folder)
    os.symlink(os.path.basename(library), f"{folder}/libheapsnap.so.0")
    variables = [f"PG_CONFIG={pg_config}", f"HEAPSNAP_LIB={folder}",
                 f"HEAPSNAP_INCLUDE={source}/lib/capi", "with_llvm=no"]
    made = subprocess.run(["make", "-C", build, *variables, "install"], capture_output=True, text=True)
    check(made.returncode == 0, f"make install: {made.stdout}{made.stderr}")
    os.chmod(folder, 0o755)
    data = f"{folder}/server"
    os.mkdir(data)
    os.chown(data, postgres.pw_uid, postgres.pw_gid)
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C",
                   "HEAPSNAP_PROGRAM": f"{folder}/{os.path.basename(heapsnap)}"}
    as_postgres = start_postgresql(programs, data, data, environment)
    try:
        def psql(query):
            return as_postgres("psql", "-h", data, "-d", "postgres", "-At", "-v", "ON_ERROR_STOP=1",
                               "-c", query)
        created = psql("CREATE EXTENSION heapsnap")
        check(created.returncode == 0, f"CREATE EXTENSION: {created.stderr}")
        snapshot = f"{data}/backend.hsnap"
        dumped = psql(f"SELECT heapsnap_dump('{snapshot}'), pg_backend_pid()")
        check(dumped.returncode == 0, f"heapsnap_dump: {dumped.stderr}")
        path, pid = dumped.stdout.strip().split("|")
        check(path == snapshot, f"it gave {path}")
        check_snapshot_file(snapshot, postgres.pw_uid)
        head, chunks = chunks_of(heapsnap, snapshot)
        check(head["pid"] == int(pid), f"the snapshot is of {head['pid']}, not of backend {pid}")
        check(len(chunks) > 100, f"only {len(chunks)} chunks")
        again = psql(f"SELECT heapsnap_dump('{snapshot}')")
        check(again.returncode != 0 and "exists" in again.stderr, f"a second dump: {again.stderr}")
        relative = psql("SELECT heapsnap_dump('x.hsnap')")
        check("not an absolute path" in relative.stderr, f"a relative path: {relative.stderr}")
        alive = psql("SELECT 6 * 7")
        check(alive.stdout.strip() == "42", f"the server afterwards: {alive.stderr}")
    finally:
        as_postgres(f"{programs}/pg_ctl", "-D", f"{data}/db", "-m", "immediate", "stop")
        subprocess.run(["make", "-C", build, *variables, "uninstall"], capture_output=True)


def main():
    which, heapsnap, libraries, source = sys.argv[1:5]
    os.environ["HEAPSNAP_PROGRAM"] = os.path.abspath(heapsnap)
    library = os.path.abspath(f"{libraries}/libheapsnap.so")
    test = {"ruby": test_ruby, "postgresql": test_postgresql}[which]
    with tempfile.TemporaryDirectory(prefix="heapsnap-self-dump-") as folder:
        test(os.path.abspath(heapsnap), library, os.path.abspath(source), folder)
    print("passed")


if __name__ == "__main__":
    main()
