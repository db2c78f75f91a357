// A snapshot of any bytes is shared as a snapshot that can be read, or refused as damaged: with as
// many chunks, mappings and stacks, and with none of its contents.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "redaction/shared_snapshot.h"
#include "snapshot/snapshot_reader.h"
#include "tests/fuzz/repaired_snapshot.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

// A folder in memory, removed at the end.
class Folder {
 public:
  Folder() { require(::mkdtemp(path_.data()) != nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { ::rmdir(path_.c_str()); }
  std::string file() const { return path_ + "/shared.hsnap"; }

 private:
  std::string path_ = "/dev/shm/share-fuzz-XXXXXX";
};

class Counter final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override {
    for (const uint64_t size : batch.sizes) bytes += size;
  }
  void on_mmapped(const MmappedChunk& chunk) override { bytes += chunk.size; }
  uint64_t bytes = 0;
};

void share(std::span<const std::byte> bytes, bool keeps_names) {
  static const Folder folder;
  const std::string path = folder.file();
  try {
    const SnapshotReader before = SnapshotReader::from_bytes(bytes, "input");
    share_snapshot(before, {path, true}, keeps_names);
    const SnapshotReader after = SnapshotReader::open(path);
    Counter was;
    Counter is;
    before.read_chunks(was);
    after.read_chunks(is);
    require(was.bytes == is.bytes && before.chunk_count() == after.chunk_count());
    require(before.metadata().mappings.size() == after.metadata().mappings.size());
    require(before.read_call_stacks().stacks.sites == after.read_call_stacks().stacks.sites);
    require(!after.has_contents());
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  ::unlink(path.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  share(bytes, true);
  test::repair(bytes);
  share(bytes, size % 2 == 0);
  return 0;
}
