// The sections of one output file, from its header to its footer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snapshot/output_file.h"
#include "snapshot/section.h"
#include "snapshot/section_encoder.h"
#include "snapshot/section_index.h"
#include "snapshot/section_spool.h"

namespace heapsnap {

class SectionStream final : public SectionSink {
 public:
  // Creates the file (see OutputFile) and writes its header.
  SectionStream(const std::string& path, bool overwrite, int folder, int file);

  // Compresses and writes the section, or, while deferred, keeps it raw.
  void add(const Section& section) override;
  // Leaving compresses and writes what was kept, so the file is the same either way.
  void set_deferred(bool deferred);
  // Writes index and footer, gives the file its name, and returns its size.
  uint64_t finish();

 private:
  // Writes a section at once.
  class Direct final : public SectionSink {
   public:
    explicit Direct(SectionStream& stream) : stream_(stream) {}
    void add(const Section& section) override { stream_.write(section); }

   private:
    SectionStream& stream_;
  };

  void write(const Section& section);

  OutputFile file_;
  SectionEncoder encoder_;
  SectionSpool spool_;
  std::vector<IndexEntry> index_;  // 40 bytes for some 256 Ki chunks or 1 MiB of contents
  bool deferred_ = false;
};

}  // namespace heapsnap
