#include "snapshot/section_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/byte_reader.h"
#include "base/error.h"
#include "base/unnamed_file.h"
#include "snapshot/byte_writer.h"
#include "snapshot/write_signals.h"

namespace heapsnap {
namespace {

// A record: u64 length of what follows | kind, items, begin, columns | (id, length, bytes)*
constexpr size_t kLengthSize = sizeof(uint64_t);

[[noreturn]] void fail(const std::string& place, int error_number) {
  throw Error(ErrorKind::kOutput, "cannot store part of the snapshot in " + place,
              errno_text(error_number), "free some space there, or set TMPDIR to another folder");
}

void deserialize(ByteReader record, Section& section) {
  section.kind = record.read<format::SectionKind>();
  section.items = record.read<uint32_t>();
  section.begin = Address(record.read<uint64_t>());
  section.columns.resize(record.read<uint16_t>());
  for (auto& column : section.columns) {
    column.id = record.read<uint16_t>();
    const auto bytes = record.take(record.read<uint32_t>());
    column.bytes.assign(bytes.begin(), bytes.end());
  }
}

}  // namespace

SectionSpool::SectionSpool(std::string directory, size_t memory)
    : directory_(std::move(directory)), memory_limit_(memory) {}

void SectionSpool::serialize(const Section& section) {
  record_.clear();
  append_value(record_, uint64_t{0});
  append_value(record_, section.kind);
  append_value(record_, section.items);
  append_value(record_, section.begin.value());
  append_value(record_, static_cast<uint16_t>(section.columns.size()));
  for (const auto& column : section.columns) {
    append_value(record_, column.id);
    append_value(record_, static_cast<uint32_t>(column.bytes.size()));
    append_bytes(record_, column.bytes);
  }
  const uint64_t length = record_.size() - kLengthSize;
  std::memcpy(record_.data(), &length, sizeof length);
}

void SectionSpool::add(const Section& section) {
  serialize(section);
  if (spilled_ == 0 && memory_.size() + record_.size() <= memory_limit_) {
    if (memory_.capacity() < memory_limit_) memory_.reserve(memory_limit_);
    append_bytes(memory_, record_);
  } else {
    write_record();
  }
}

void SectionSpool::write_record() {
  if (!file_) {
    const char* temporary = std::getenv("TMPDIR");
    const std::string fallback = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
    for (const std::string& place : {directory_, fallback, std::string("/tmp")}) {
      if (place.empty()) continue;
      place_ = place;
      file_ = open_unnamed_file(place);
      if (file_) break;
    }
    if (!file_) fail(place_, errno);
    // A folder that is given by its descriptor (output_file.h) has a name, too.
    std::error_code error;
    const bool is_descriptor = place_.starts_with("/proc/self/fd/");
    if (is_descriptor) place_ = std::filesystem::read_symlink(place_, error).string();
  }
  const WriteSignalsHeld held;
  size_t done = 0;
  while (done < record_.size()) {
    const ssize_t written = ::pwrite(file_.get(), record_.data() + done, record_.size() - done,
                                     static_cast<off_t>(spilled_ + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(place_, errno);
    done += static_cast<size_t>(written);
  }
  spilled_ += record_.size();
}

void SectionSpool::read_spilled(uint64_t offset, void* out, size_t size) const {
  auto* bytes = static_cast<std::byte*>(out);
  while (size > 0) {
    const ssize_t got = ::pread(file_.get(), bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(place_, got < 0 ? errno : EIO);
    bytes += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
}

void SectionSpool::drain(SectionSink& sink) {
  Section section;
  const std::string name = "the spool of raw sections";
  ByteReader kept(memory_, name);
  while (!kept.at_end()) {
    deserialize(ByteReader(kept.take(kept.read<uint64_t>()), name), section);
    sink.add(section);
  }
  Bytes().swap(memory_);
  for (uint64_t offset = 0; offset < spilled_;) {
    uint64_t length = 0;
    read_spilled(offset, &length, sizeof length);
    record_.resize(static_cast<size_t>(length));
    read_spilled(offset + kLengthSize, record_.data(), record_.size());
    deserialize(ByteReader(record_, name), section);
    sink.add(section);
    offset += kLengthSize + length;
  }
  Bytes().swap(record_);
  spilled_ = 0;
  file_.reset();
}

}  // namespace heapsnap
